"""What a reader that goes on holds: so many records or bytes, and nothing once it is closed."""

from collections.abc import Callable
from typing import Any

import pytest

from lithify.log import follow
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment.source import Source
from lithify.segment.spill import SpillFile
from tests.log.compaction import compact
from tests.log.test_follow import COMPACTED, append, shown


@pytest.mark.parametrize("of", [("key", 1), ("value", 1), ("headers", 1)], ids=lambda of: of[0])
@pytest.mark.parametrize(("size", "most"), [(1 << 20, 1), (400_000, 3), (1, 500)])
def test_a_stretch_holds_so_many_bytes_or_one_record(
    warehouse: Warehouse, of: tuple[str, int], size: int, most: int
) -> None:
    """Before, it held 500 records, whatever they weighed, of each partition."""
    part = warehouse.create_topic("t", config={"max.message.bytes": 2 << 20}).partition(0)
    body = b"x" * size
    parts: dict[str, dict[str, Any]] = {
        "key": {"key": body, "value": b""},
        "value": {"key": b"", "value": body},
        "headers": {"key": b"", "value": b"", "headers": (("h", body),)},
    }
    part.append([Record(**parts[of[0]])] * 4 + [Record(b"k", b"v")] * 600)
    consumer = part.consumer("c")
    found = shown(consumer.poll(max_records=1))
    assert consumer.waiting + 1 == most
    while items := consumer.poll(max_records=1):
        assert consumer.waiting < follow.STRETCH_RECORDS
        found += shown(items)
    assert found == list(range(604))


class _Spills:
    """Files of sorts that are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = 0
        made, closed = SpillFile.__init__, SpillFile.close

        def make(file: SpillFile, *args: Any) -> None:
            made(file, *args)
            self.open += 1

        def close(file: SpillFile) -> None:
            closed(file)
            self.open -= 1

        monkeypatch.setattr(SpillFile, "__init__", make)
        monkeypatch.setattr(SpillFile, "close", close)
        monkeypatch.setitem(Source.__init__.__kwdefaults__, "sort_bytes", 1_000)


def reading(topic: Topic, part: Partition, kind: str) -> Any:
    return {
        "read": lambda: part.read(follow=True),
        "partition": lambda: part.consumer("c"),
        "topic": lambda: topic.consumer("c"),
    }[kind]()


ENDS: dict[str, Callable[[Any], object]] = {
    "close": lambda reader: reader.close(),
    "block": lambda reader: reader.__exit__(None, None, None),
    "error": lambda reader: reader.__exit__(ZeroDivisionError, ZeroDivisionError(), None),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "end"), [("read", "close"), *((kind, end) for kind in ("partition", "topic") for end in ENDS)]
)
def test_closed_it_holds_no_sort_and_no_file(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, kind: str, end: str
) -> None:
    """Before, until the object was gone."""
    topic = warehouse.create_topic("t", config=COMPACTED)
    part = topic.partition(0)
    for _ in range(2):
        append(part, *(f"{row:04d}" for row in range(700)))
    append(part, *(f"more{row:04d}" for row in range(700)))
    compact(warehouse, "t")
    spills = _Spills(monkeypatch)
    reader = reading(topic, part, kind)
    next(reader)
    assert spills.open > 0
    ENDS[end](reader)
    assert spills.open == 0
    assert next(reader, None) is None
