"""A warehouse that was closed, replaced by a backup of itself, and opened again, by one process."""

import shutil
from pathlib import Path

import lithify


def test_once_all_have_closed_it_nothing_that_was_seen_counts(tmp_path: Path) -> None:
    """A backup that is restored in its place is older than what this process has seen. Before, an append built on a
    manifest that was not there, if the garbage collector had not come by."""
    place, backup = tmp_path / "w", tmp_path / "backup"
    with lithify.open(place) as warehouse:
        warehouse.create_topic("t", probe=False).append([lithify.Record(b"k", b"1")])
    shutil.copytree(place, backup)
    with lithify.open(place) as warehouse:
        kept = warehouse.topic("t").partition(0)
        for value in (b"2", b"3"):
            kept.append([lithify.Record(b"k", value)])
    shutil.rmtree(place)
    backup.rename(place)
    with lithify.open(place) as warehouse:
        part = warehouse.topic("t").partition(0)
        assert part.append([lithify.Record(b"k", b"4")]) == range(1, 2)
        assert part.append([lithify.Record(b"k", b"5")]) == range(2, 3)
        assert [record.value for record in part.read()] == [b"1", b"4", b"5"]
    assert kept.number == 0  # still held
