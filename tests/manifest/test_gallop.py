"""The end of a stretch is found wherever it is, in few rounds, and while it grows."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.manifest.gallop import NARROW_LOOKS, STRIDES_FIRST, STRIDES_FIRST_SMALL, end_of_stretch
from lithify.store.driver import drive


class Stretch:
    """Numbers `first` to `last`; each look may find that it has grown."""

    def __init__(self, first: int, last: int, grows: random.Random | None = None) -> None:
        self._first, self.last, self._grows = first, last, grows
        self.rounds: list[list[int]] = []
        self.looked: list[tuple[int, bool]] = []  # in the order of the answers

    async def look(self, numbers: Sequence[int]) -> Sequence[bool]:
        order = list(range(len(numbers)))
        if self._grows is not None:
            self._grows.shuffle(order)
        found = [False] * len(numbers)
        for place in order:
            if self._grows is not None and self._grows.random() < 0.3:
                self.last += self._grows.choice((1, 1, 2, 40))
            found[place] = self._first <= numbers[place] <= self.last
            self.looked.append((numbers[place], found[place]))
        self.rounds.append(list(numbers))
        return found

    def end(self, low: int, strides: int = STRIDES_FIRST) -> int | None:
        return drive(end_of_stretch(low, self.look, strides), lambda _: None)


@given(st.integers(0, 1_000), st.integers(0, 100_000), st.sampled_from([STRIDES_FIRST, STRIDES_FIRST_SMALL]))
def test_the_end_is_found_wherever_it_is(low: int, more: int, strides: int) -> None:
    stretch = Stretch(low + 1, low + more)
    assert stretch.end(low, strides) == low + more
    assert all(len(numbers) <= NARROW_LOOKS for numbers in stretch.rounds)


@given(st.integers(0, 50), st.integers(0, 300), st.integers(0, 2**32))
def test_the_end_was_the_end_at_some_time(low: int, more: int, seed: int) -> None:
    """It was there, or was known before; its next number was absent when it was looked for; and it is not before where
    the stretch ended when the search began."""
    stretch = Stretch(low + 1, low + more, random.Random(seed))
    end = stretch.end(low)
    assert end is not None
    assert low + more <= end <= stretch.last
    assert end == low or (end, True) in stretch.looked
    assert (end + 1, False) in stretch.looked


@pytest.mark.parametrize(("more", "rounds"), [(0, 1), (1, 1), (2, 2), (3, 2), (20, 2), (31, 2), (33, 4), (200, 4)])
def test_rounds_are_few(more: int, rounds: int) -> None:
    stretch = Stretch(1, more)
    assert stretch.end(0) == more
    assert len(stretch.rounds) <= rounds


def test_a_number_that_is_absent_below_one_that_is_there_says_nothing() -> None:
    """The first numbers are collected; what is there beyond them counts, and its next number is looked for."""
    stretch = Stretch(30, 40)
    assert stretch.end(0) == 40
    assert (41, False) in stretch.looked


def test_where_everything_seems_to_be_there_the_search_ends() -> None:
    stretch = Stretch(0, 1 << 80)
    assert stretch.end(0) is None
    assert len(stretch.rounds) < 10
