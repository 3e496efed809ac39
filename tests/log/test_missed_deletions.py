"""Deletions that cleaning took away before a consumer read them: when they are an alarm, and what ends it."""

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from lithify.log.partition import Partition
from lithify.log.warehouse import Warehouse
from lithify.manifest.consumers import missed
from lithify.manifest.edits import Next
from lithify.manifest.model import Manifest
from tests.log.compaction import files_of
from tests.log.test_follow import COMPACTED, append


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    made = warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(made, "a", "b", "c", "d")
    return made


class _Missed:
    """What a clean does to consumers that tombstones below `dropped_to` were unread by."""

    repeatable = True
    frees = False

    def __init__(self, dropped_to: int) -> None:
        self._dropped_to = dropped_to

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(head, consumers=missed(head.consumers, self._dropped_to)), None)


def clean(warehouse: Warehouse, dropped_to: int) -> None:
    warehouse.driver.run(files_of(warehouse, "t").manifest.commit(_Missed(dropped_to)))


def test_missed_deletions_are_an_alarm_until_the_state_is_made_anew(warehouse: Warehouse, part: Partition) -> None:
    def alarm(name: str) -> str | None:
        (found,) = [known.alarm for known in part.consumers() if known.name == name]
        return found

    for name, count in (("none", 0), ("some", 2), ("all", 4)):
        with part.consumer(name) as consumer:
            if count:
                consumer.poll(max_records=count)
    clean(warehouse, 3)
    assert (alarm("none"), alarm("all")) == (None, None)
    text = alarm("some")
    assert text is not None
    assert "below offset 3" in text
    with part.consumer("some") as consumer:
        consumer.poll()
    assert alarm("some") == text  # reading on does not bring the deletions back
    part.reset_consumer("some", 2)
    assert alarm("some") == text
    part.reset_consumer("some", "earliest")
    assert alarm("some") is None


@pytest.mark.parametrize("count", range(1, 5))
def test_what_was_read_and_is_not_committed_clears_no_alarm(warehouse: Warehouse, part: Partition, count: int) -> None:
    """All four records are of one stretch, and of the first manifest it saw; whoever comes next sees no deletion behind
    what is committed. Tried on log/consumer.py, and caught: the state is said to be whole as far as it was read."""
    consumer = part.consumer("c", auto_commit_interval_ms=None)
    assert len(consumer.poll(max_records=count)) == count
    clean(warehouse, 3)
    consumer.commit()
    (known,) = part.consumers()
    assert (known.offset, known.missed_to) == (count, 0 if count >= 3 else 3)
    assert (known.alarm is None) is (count >= 3)


@pytest.mark.parametrize("floor", range(4))
def test_a_reset_to_the_start_clears_the_alarm_wherever_the_log_starts(
    warehouse: Warehouse, part: Partition, floor: int
) -> None:
    """Tried on log/positions.py, and caught: at an offset above 0 the alarm stays."""
    with part.consumer("c") as consumer:
        consumer.poll(max_records=2)
    clean(warehouse, 3)
    part.delete_records(floor)
    assert part.reset_consumer("c", "earliest") == floor
    (known,) = part.consumers()
    assert (known.offset, known.missed_to, known.alarm) == (floor, 0, None)


def test_opening_a_consumer_that_missed_deletions_says_so(warehouse: Warehouse, part: Partition) -> None:
    """Tried on log/consumer.py, and caught: no word."""
    for name, count in (("missed", 2), ("none", 4), ("begins", 0)):
        with part.consumer(name) as consumer:
            if count:
                consumer.poll(max_records=count)
    clean(warehouse, 3)
    with capture_logs() as told:
        for name in ("missed", "none", "begins"):
            part.consumer(name)
    words = {"partition": "t/0", "consumer": "missed", "before_offset": 3}
    assert told == [{"event": "consumer missed deletions", "log_level": "warning", **words}]
