"""What is wrong is told when it begins, when it changes and when it is over."""

import pytest
from msgspec.structs import replace

from lithify.compactor.info import PartitionReport, unread_topic
from lithify.compactor.service import kind_of_rest
from lithify.events import troubles as troubles_module
from lithify.events.notices import Recovered, Rests, Trouble
from lithify.events.troubles import Troubles
from lithify.events.types import Event
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Fault
from lithify.store.errors import CommitUnknown, Corrupt, Unavailable

FULL = Fault.of(Unavailable("the disk is full"))
OTHER = Fault.of(Corrupt("manifest 3 is damaged", "t/manifest/3"))


def test_a_failure_that_lasts_is_told_once_and_so_is_its_end() -> None:
    told: list[Event] = []
    troubles = Troubles(told.append)
    for outcome in (FULL, FULL, OTHER, OTHER, "all is well", None):
        troubles.tell("partition failed", outcome, "users", 3)
    assert told == [
        Trouble(topic="users", partition=3, what="partition failed", fault=FULL),
        Trouble(topic="users", partition=3, what="partition failed", fault=OTHER),
        Recovered(topic="users", partition=3, what="partition failed"),
    ]


def test_a_lasting_outage_is_told_once_though_its_words_change() -> None:
    """Each pass names the number that it tried, how long it waited, or what answered."""
    told: list[Event] = []
    troubles = Troubles(told.append)
    outages = [Fault.of(CommitUnknown(f"t/manifest/{number}: unknown", f"{number}:abc")) for number in (7, 8, 9)]
    for outage in outages:
        troubles.tell("partition failed", outage, "users", 3)
    assert told == [Trouble(topic="users", partition=3, what="partition failed", fault=outages[0])]


def test_the_same_failure_of_another_object_is_news() -> None:
    told: list[Event] = []
    troubles = Troubles(told.append)
    first, second = (Fault.of(Corrupt("it is damaged", f"t/segments/{name}.parquet")) for name in "ab")
    for fault in (first, first, second, second):
        troubles.tell("partition failed", fault, "users", 3)
    assert [event.fault for event in told if isinstance(event, Trouble)] == [first, second]


def test_each_place_has_its_own() -> None:
    told: list[Event] = []
    troubles = Troubles(told.append)
    troubles.tell("partition failed", FULL, "users", 3)
    troubles.tell("partition failed", None, "users", 4)
    troubles.tell("partition not ranked", None, "users", 3)
    troubles.tell("partition failed", None, "users", 3, "another life of the topic")
    assert [type(event) for event in told] == [Trouble]


def test_a_topic_that_is_made_again_begins_anew() -> None:
    told: list[Event] = []
    troubles = Troubles(told.append)
    troubles.tell("topics not listed", FULL)
    troubles.tell("topic skipped", FULL, "users")
    troubles.keep(["orders"])
    troubles.tell("topic skipped", FULL, "users")
    troubles.tell("topics not listed", FULL)
    assert [event.topic for event in told] == ["", "users", "users"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bound the one that was met least lately is forgotten, and told again."""
    monkeypatch.setattr(troubles_module, "TOLD_MAX", 3)
    told: list[Event] = []
    troubles = Troubles(told.append)
    for partition in (0, 1, 2, 0, 3, 0, 1):
        troubles.tell("partition failed", FULL, "users", partition)
    assert [event.partition for event in told] == [0, 1, 2, 3, 1]


USERS = PartitionKeys("users", "0" * 16, 0)


def report(outcome: str, detail: str) -> PartitionReport:
    return replace(unread_topic("users", FULL), partition=0, detail=detail, outcome=outcome)


def test_what_keeps_a_partition_waiting_is_told_once_for_each_change() -> None:
    standby = report("standby", "another is at work")
    waiting = [report("waiting", f"next attempt in {ms} ms") for ms in (900, 800)]
    quarantined = report("idle", "quarantined because of a damaged segment")
    idle, failed = replace(report("idle", "nothing is due"), nothing_due=True), report("failed", "told by itself")
    told: list[Event] = []
    troubles = Troubles(told.append)
    for each in (standby, standby, *waiting, idle, quarantined, quarantined, failed, report("worked", ""), standby):
        troubles.rests(USERS, kind_of_rest(each), each.outcome, each.detail)
    assert {(event.topic, event.topic_id, event.partition) for event in told} == {("users", USERS.topic_id, 0)}
    assert [event.outcome for event in told if isinstance(event, Rests)] == ["standby", "waiting", "idle", "standby"]
