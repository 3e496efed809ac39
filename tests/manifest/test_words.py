"""Numbers in sentences: spans of time, and one or many."""

import pytest

from lithify.manifest.words import counted, numbers_text, span_text


@pytest.mark.parametrize(
    ("span_ms", "told"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (3_598_692, "60.0 min"),
        (12_600_000, "3.5 h"),
        (-90_000, "-1.5 min"),
    ],
)
def test_a_span_is_told_in_its_largest_unit(span_ms: int, told: str) -> None:
    assert span_text(span_ms) == told


def test_one_is_not_many() -> None:
    assert [counted(n, "key range") for n in (0, 1, 2)] == ["0 key ranges", "1 key range", "2 key ranges"]


def test_stretches_of_numbers_are_told_by_their_ends() -> None:
    told = [numbers_text("partition", numbers) for numbers in ([3], [0, 1], [0, 1, 2, 5, 7, 8, 9, 10])]
    assert told == ["partition 3", "partitions 0, 1", "partitions 0 to 2, 5, 7 to 10"]
