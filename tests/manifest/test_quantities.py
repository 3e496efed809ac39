"""A unit where a whole number is asked for is answered with the number, wherever one is taken."""

import pytest

from lithify.manifest.quantities import unit_hint


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("retention.ms", "1d", 86_400_000),
        ("retention.ms", "7 days", 7 * 86_400_000),
        ("delete.retention.ms", "90m", 5_400_000),
        ("local_retention_ms", "2H", 7_200_000),
        ("--linger-ms", "1s", 1_000),
        ("segment.bytes", "1GB", 1 << 30),
        ("retention.bytes", "512MiB", 512 << 20),
        ("max.message.bytes", "64k", 64 << 10),
    ],
)
def test_a_unit_is_answered_with_the_number(name: str, text: str, number: int) -> None:
    assert unit_hint(name, text).startswith(f": for {text}, write {number} (")


@pytest.mark.parametrize(
    ("name", "given"),
    [("retention.ms", "soon"), ("retention.ms", "1GB"), ("segment.bytes", "1d"), ("partitions", "1k"), ("a.ms", 0.5)],
)
def test_of_what_is_no_unit_nothing_is_made(name: str, given: object) -> None:
    assert unit_hint(name, given) == ""
