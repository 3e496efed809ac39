"""The store's clock from whole-second Dates: never ahead, at most a second behind, and steady."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.store import reply_clock
from lithify.store.reply_clock import ReplyClock


def test_it_knows_nothing_before_a_date() -> None:
    clock = ReplyClock()
    for nonsense in (None, "", "yesterday", "Mon, 99 Foo 2020 99:99:99 GMT"):
        clock.observe(nonsense)
    assert clock.now() is None


@given(
    store_ahead_ms=st.integers(0, 2_000_000_000_000),
    steps=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 400)), min_size=1, max_size=30),
)
def test_it_follows_the_store(store_ahead_ms: int, steps: list[tuple[int, int]]) -> None:
    """Each step: time passes, the store dates a reply, and the reply takes its time to arrive."""
    clock, monotonic, last = ReplyClock(), 0, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_clock, "monotonic_ms", lambda: monotonic)
        for passed_ms, arriving_ms in steps:
            monotonic += passed_ms
            clock.observe(formatdate((monotonic + store_ahead_ms) // 1000, usegmt=True))
            now = clock.now()
            assert now is not None
            assert monotonic + store_ahead_ms - 1000 < now <= monotonic + store_ahead_ms
            assert last is None or now >= last
            last = now
            monotonic += arriving_ms


def test_a_clock_that_was_set_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ReplyClock()
    monkeypatch.setattr(reply_clock, "monotonic_ms", lambda: 0)
    for at_s in (1_000_000, 1_003_600, 990_000):
        clock.observe(formatdate(at_s, usegmt=True))
        assert clock.now() == at_s * 1000
