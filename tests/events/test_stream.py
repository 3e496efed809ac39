"""Cursors, the ring of the last events, and the form that clients get."""

import json

import pytest

from lithify.events import types
from lithify.events.notices import CollectionEnded, Trouble
from lithify.events.stream import Asked, Cursor, Ring, as_json
from lithify.events.types import Change, CheckpointRemoved, EpochRaised, Event
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Fault
from lithify.store.errors import InvalidRequest, Unavailable

SERVER = "0123456789abcdef"
TOPIC_ID = "00000000000000aa"
ENDED = CollectionEnded(swept=False, objects=1, bytes=2, waiting=0, failed=0)


def raised(number: int) -> EpochRaised:
    return EpochRaised(topic="t", topic_id=TOPIC_ID, partition=3, manifest=number, at_ms=5, epoch=number)


def events(ring: Ring, sequence: int) -> list[Event]:
    return [event for _, event in ring.after(sequence)]


def test_a_cursor_is_its_text() -> None:
    cursor = Cursor(SERVER, 7, 1_700_000_000_000)
    assert str(cursor) == f"{SERVER}.7.1700000000000"
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "7", f"{SERVER}.7", f"{SERVER}.7.8.9", f"{SERVER}.-7.8", f"{SERVER}.7.8\n", "x.7.8"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not a cursor"):
        Cursor.parse(text)


def test_a_ring_holds_the_last_events_and_knows_who_missed_some() -> None:
    ring = Ring(SERVER, most=3)
    for number in range(1, 6):
        ring.add(raised(number), at_ms=number)
    assert [sent.cursor for sent in ring.after(3)] == [Cursor(SERVER, 4, 4), Cursor(SERVER, 5, 5)]
    assert events(ring, 2) == [raised(3), raised(4), raised(5)]
    assert events(ring, 5) == []
    assert [ring.holds(Cursor(SERVER, sequence, 0)) for sequence in (1, 2, 5, 6)] == [False, True, True, False]
    assert not ring.holds(Cursor("f" * 16, 4, 0))


def test_the_ring_has_what_was_added_as_often_as_it_was_added() -> None:
    """A change, too: what a former client was told of a partition, a later one may not have been told."""
    ring = Ring(SERVER, most=3)
    for event in (raised(1), ENDED, raised(1), ENDED):
        ring.add(event, at_ms=0)
    assert (ring.last, events(ring, 1)) == (4, [ENDED, raised(1), ENDED])


def test_what_is_asked_for() -> None:
    keys = PartitionKeys("t", TOPIC_ID, 3)
    trouble = Trouble(topic="t", what="topic skipped", fault=Fault.of(Unavailable("away")))
    for asked, covers, takes in (
        (Asked(), True, (True, True, True)),
        (Asked("t"), True, (True, True, True)),
        (Asked("t", 3), True, (True, True, True)),
        (Asked("t", 4), False, (False, True, True)),
        (Asked("u"), False, (False, False, True)),
    ):
        assert asked.covers(keys) == covers
        assert (asked.takes(raised(1)), asked.takes(trouble), asked.takes(ENDED)) == takes


def test_clients_get_the_id_of_a_change() -> None:
    removed = CheckpointRemoved(
        topic="t", topic_id=TOPIC_ID, partition=0, manifest=8, index=2, at_ms=5, owner="user", name="n", checkpoint="c"
    )
    assert json.loads(as_json(removed)) == {
        "id": f"{TOPIC_ID}/0/manifest/8/2",
        "event": "checkpoint_removed",
        "topic": "t",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "manifest": 8,
        "index": 2,
        "at_ms": 5,
        "owner": "user",
        "name": "n",
        "checkpoint": "c",
    }
    assert "id" not in json.loads(as_json(ENDED))
    changes = [kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, Change)]
    assert [kind for kind in changes if "id" in kind.__struct_fields__] == []
