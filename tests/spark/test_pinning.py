"""What a DataFrame pins, and what it does where it cannot (docs/rfcs/0021, 0022)."""

import logging

import pytest
from pyspark_lithify.opening import opened
from pyspark_lithify.options import read_options
from pyspark_lithify.reading import planned

import lithify
from lithify.log.topic import Topic
from lithify.segment.read_task import ReadTask
from lithify.store.errors import AccessDenied, OffsetOutOfRange, SnapshotExpired, Unavailable
from lithify.store.opening import open_store


def plan(url: str, **options: object) -> list[ReadTask]:
    """As each `load` does, in a process of its own."""
    asked = read_options({"topic": "t", "path": url} | {name: str(value) for name, value in options.items()})
    return planned(opened(asked.common), asked, asked.columns)


def pins(topic: Topic) -> list[int]:
    return [len(topic.partition(number).checkpoints("scan")) for number in range(topic.partitions)]


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> Topic:
    made = warehouse.create_topic("t", partitions=2)
    for number in range(2):
        made.partition(number).append([lithify.Record(b"%d" % n, b"v") for n in range(3)])
    return made


@pytest.mark.parametrize("options", [{}, {"partition": "0,1"}])
def test_where_no_other_pin_can_be_made_it_reads_without_and_says_so(
    url: str,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
) -> None:
    """Before, the 513th DataFrame of an hour was refused."""
    monkeypatch.setitem(lithify.manifest.model.PINS_MAX, "scan", 2)
    for _ in range(2):
        assert all(task.hold is not None and len(task.beside) == 1 for task in plan(url, **options))
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        tasks = plan(url, **options)
    assert sum(task.rows for task in tasks) == 6
    assert all(task.hold is None and not task.beside for task in tasks)
    assert "without a pin" in caplog.text
    assert pins(topic) == [2, 2]


def test_who_may_not_write_is_told(url: str, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pin=false` is for that."""

    def denied(*_: object, **__: object) -> None:
        raise AccessDenied("no")

    monkeypatch.setattr("lithify.log.held.checkpoints.pin", denied)
    with pytest.raises(AccessDenied):
        plan(url)
    assert sum(task.rows for task in plan(url, pin="false")) == 6


@pytest.mark.parametrize("which", [{}, {"partition": "0,1"}])
def test_a_manifest_that_nothing_pins_is_read_and_one_that_a_scan_pins_is_kept(
    url: str, topic: Topic, which: dict[str, str]
) -> None:
    heads = [topic.partition(number).snapshot().manifest_id for number in range(2)]
    given = ",".join(map(str, heads))
    topic.partition(0).append([lithify.Record(b"later", b"v")])
    tasks = plan(url, manifest=given, **which)
    assert [(task.manifest_id, task.hold, task.rows) for task in tasks] == [(head, None, 3) for head in heads]
    assert pins(topic) == [0, 0]
    pinned = topic.partition(1).snapshot(ttl=1_000_000)
    tasks = plan(url, manifest=f"{heads[0]},{pinned.manifest_id}", **which)
    assert tasks[0].hold is None
    assert tasks[1].hold is not None
    assert pinned.checkpoint is not None
    assert tasks[1].hold.id == pinned.checkpoint.id
    assert [each.partition for each in tasks[0].beside] == [1]
    assert pins(topic) == [0, 1]


@pytest.mark.slow
def test_a_manifest_that_was_collected_is_said(url: str, warehouse: lithify.Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    head = part.snapshot().manifest_id
    for n in range(300):
        part.append([lithify.Record(b"%d" % n, b"v")])
    for _ in range(2):
        lithify.Collector(lithify.open(url), grace_ms=0).run_once()
    with pytest.raises(SnapshotExpired, match="no longer retained"):
        plan(url, manifest=head)


def test_an_outage_is_no_reason_to_read_without_a_pin(url: str, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr("lithify.log.held.opened", away)
    with pytest.raises(Unavailable, match="away"):
        plan(url)


@pytest.mark.parametrize("chosen", [{}, {"partition": "0,1"}])
def test_a_partition_that_ends_before_the_first_offset_has_nothing(
    url: str, warehouse: lithify.Warehouse, chosen: dict[str, object]
) -> None:
    """Unless none reaches it."""
    topic = warehouse.create_topic("uneven", partitions=2)
    topic.partition(0).append([lithify.Record(b"a", b"v")])
    topic.partition(1).append([lithify.Record(b"b%d" % n, b"v") for n in range(10)])

    def rows(**options: object) -> int:
        given = {name: str(value) for name, value in (options | chosen).items()}
        read = read_options({"topic": "uneven", "path": url, "view": "log"} | given)
        store = open_store(url)
        return sum(
            batch.num_rows
            for task in planned(opened(read.common), read, ("key",))
            for batch in lithify.read_task(task, store)
        )

    assert rows(offset_from=5) == 5
    assert rows(offset_from=5, offset_to=7) == 2
    assert rows(offset_from=1, offset_to=3) == 2
    with pytest.raises(OffsetOutOfRange, match="offset 11 is beyond the end"):
        rows(offset_from=11)
