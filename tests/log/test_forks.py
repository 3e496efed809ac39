"""A process that forks while its other threads are at work: handles that the child inherits are its own (P1)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lithify
from tests.processes import exit_codes, forked

# From 3.12 on Python warns of forks beside threads, which is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_a_child(work: Callable[[], object]) -> int:
    """How a forked child ended: 0, or what ended it."""

    def child() -> None:
        work()

    return exit_codes([forked(child)])[0]


@pytest.mark.parametrize("used", ["partition", "topic"])
def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(used: str, tmp_path: Path) -> None:
    topic = lithify.open(str(tmp_path / "w")).create_topic("t", probe=False)
    part = topic.partition(0)
    part.append([lithify.Record(b"k", b"parent")])
    lock = (part if used == "partition" else topic)._lock.mine()
    busy, done = threading.Event(), threading.Event()

    def other() -> None:
        with lock:
            busy.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    busy.wait()
    work = (lambda: part.append([lithify.Record(b"k", b"child")])) if used == "partition" else topic.describe
    ended = in_a_child(work)
    done.set()
    thread.join()
    assert ended == 0
    part.append([lithify.Record(b"k", b"parent again")])
    values = [record.value for record in part.read()]
    assert values == [b"parent", *([b"child"] if used == "partition" else []), b"parent again"]


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(lithify.InvalidRequest, match="open another one here"):
        call()


OF_A_TOPIC = "Topic.consumer"
CONSUMERS: dict[str, Callable[[lithify.Topic], Any]] = {
    "Partition.consumer": lambda topic: topic.partition(0).consumer("c"),
    "scan_and_follow": lambda topic: topic.partition(0).scan_and_follow("c").consumer,
    OF_A_TOPIC: lambda topic: topic.consumer("c", auto_commit_interval_ms=1),
}
USES: dict[str, Callable[[Any], object]] = {
    "poll": lambda consumer: consumer.poll(max_records=1),
    "next": next,
    "for": lambda consumer: [item for item in consumer],  # noqa: C416 - what a loop does
    "commit": lambda consumer: consumer.commit(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", CONSUMERS)
def test_an_inherited_consumer_is_its_parents(kind: str, use: str, tmp_path: Path) -> None:
    """Before, both moved one position, forwards and back, and nobody was refused."""
    topic = lithify.open(str(tmp_path / "w")).create_topic("t", probe=False)
    part = topic.partition(0)
    part.append([lithify.Record(b"k", b"%d" % row) for row in range(4)])
    consumer = CONSUMERS[kind](topic)
    part.append([lithify.Record(b"k", b"more")])
    consumer.poll(max_records=1)
    before = part.describe().manifest_id

    def inherit() -> None:
        refused(lambda: USES[use](consumer))
        consumer.close()  # its parent's to commit
        with pytest.raises(ZeroDivisionError), consumer:
            raise ZeroDivisionError

    assert in_a_child(inherit) == 0
    assert part.describe().manifest_id == before
    consumer.close()
    part.consumer("c").close()


def test_a_child_that_opens_a_consumer_of_its_own_takes_the_name_over(tmp_path: Path) -> None:
    part = lithify.open(str(tmp_path / "w")).create_topic("t", probe=False).partition(0)
    part.append([lithify.Record(b"k", b"%d" % row) for row in range(4)])
    consumer = part.consumer("c")
    consumer.poll(max_records=1)

    def read() -> None:
        with part.consumer("c") as own:
            assert len(own.poll()) == 4

    assert in_a_child(read) == 0
    with pytest.raises(lithify.Fenced):
        consumer.close()
