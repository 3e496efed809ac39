"""Doing one thing: compacting one topic, and waiting for one compaction."""

from typing import Any

import pytest

import lithify as face
from lithify.admin.waiting import finished
from tests.cli.conftest import Lithify, changes

ONCE = ("compactor", "run", "--once", "--engine", "local")
COMPACTED = ("--config", "cleanup.policy=compact")


def test_a_compactor_does_only_the_topics_that_are_named(lithify: Lithify) -> None:
    for name in ("users", "others", "more"):
        lithify.ok("topic", "create", name, *COMPACTED)
        lithify.ok("append", name, input=changes(20))
    found = lithify.json(*ONCE, "--topic", "users", "--topic", "more")
    assert [each["topic"] for each in found["partitions"]] == ["more", "users"]
    assert [each["id"].split("/")[0] for each in lithify.json("compaction", "list")] == ["more", "users"]
    lithify.refused(*ONCE, "--topic", "user", code=3, saying="topic user does not exist")
    assert len(lithify.json(*ONCE)["partitions"]) == 3


def test_who_waits_sees_how_far_it_is_until_it_has_ended(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--partitions", "2", *COMPACTED)
    lithify.ok("append", "users", input=changes(20))
    with face.open(lithify.url) as warehouse:
        admin, compactor = face.Admin(warehouse), face.Compactor(warehouse, engine="local")
        infos = [admin.submit("users", number) for number in (0, 1)]
        told: list[list[Any]] = []

        def wait(_: int) -> None:
            assert len(told) < 3, "it waits though all have ended"
            compactor.run_once()

        ended = finished(admin, infos, lambda now: told.append([each.status for each in now]), wait)
        compactor.close()
    assert [each.status for each in ended] == ["completed", "completed"]
    assert told[0] == ["submitted", "submitted"]
    assert told[-1] == ["completed", "completed"]


def test_a_request_that_is_waited_for_is_answered_with_its_end(lithify: Lithify, monkeypatch: Any) -> None:
    lithify.ok("topic", "create", "users", *COMPACTED)
    lithify.ok("append", "users", input=changes(20))

    def compact(_: int) -> None:
        with face.open(lithify.url) as warehouse:
            compactor = face.Compactor(warehouse, engine="local")
            compactor.run_once()
            compactor.close()

    monkeypatch.setattr(finished, "__defaults__", (compact,))
    (done,) = lithify.json("compaction", "submit", "users", "--full", "--wait")
    assert (done["status"], done["counts"]["rows_out"]) == ("completed", 7)
    text = lithify.ok("compaction", "submit", "users", "--full", "--wait")
    assert "submitted" in text.splitlines()[0]
    assert " completed " in text.splitlines()[-1]

    def cancel(_: int) -> None:
        with face.open(lithify.url) as warehouse:
            admin = face.Admin(warehouse)
            admin.cancel(next(each.id for each in admin.compactions() if each.status == "submitted"))
            compact(0)

    monkeypatch.setattr(finished, "__defaults__", (cancel,))
    result = lithify("compaction", "submit", "users", "--full", "--wait")
    assert result.exit_code == 1
    assert " cancelled " in result.stdout


@pytest.mark.parametrize("served_before", [False, True])
def test_who_waits_in_vain_is_told_to_start_a_compactor(
    lithify: Lithify, monkeypatch: Any, *, served_before: bool
) -> None:
    lithify.ok("topic", "create", "users", *COMPACTED)
    lithify.ok("append", "users", input=changes(20))
    if served_before:
        lithify.ok("compaction", "submit", "users", "--full")
        lithify.ok("compactor", "run", "--once", "--engine", "local")
        lithify.ok("append", "users", input=changes(20))
    looks = 0

    def wait(_: int) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(finished, "__defaults__", (wait,))
    result = lithify("compaction", "submit", "users", "--full", "--wait")
    assert result.exit_code == 130
    told, goes_on, interrupted = filter(None, result.stderr.splitlines())
    known = "no compactor has accepted it yet; the latest on users/0 was "
    assert (known if served_before else "warning: no compactor has ever worked on users/0; ") in told
    assert "lithify compactor run" in told
    (submitted,) = lithify.json("compaction", "list", "--active")
    assert f"'lithify compaction status {submitted['id']}'" in goes_on
    assert f"'lithify compaction cancel {submitted['id']}'" in goes_on
    assert interrupted == "lithify: interrupted"


def test_a_second_request_for_everything_names_the_first(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--partitions", "2", *COMPACTED)
    lithify.ok("append", "users", "--partition", "1", input=changes(20))
    submit = ("compaction", "submit", "users", "--full", "--partition")
    first = lithify(*submit, "1")
    assert not first.stderr
    lithify("compaction", "submit", "users", "--full", "--partition", "0", "--json")  # the other one knows of none
    again = lithify(*submit, "1")
    (named,) = again.stderr.splitlines()
    assert named.startswith(f"lithify: {first.stdout.split()[0]} asks for the same")
    assert again.exit_code == 0
    lithify.ok(*ONCE)
    assert not lithify(*submit, "1").stderr
