"""Lists in pages: whatever is there all the time is told once, whatever comes and goes meanwhile."""

import contextlib
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lithify
from lithify.admin.http.paging import page
from lithify.admin.topics import TopicSummary
from tests.admin.served import Served
from tests.admin.test_operations import COMPACTED
from tests.clock import HandClock


def named(names: list[str]) -> list[TopicSummary]:
    return [TopicSummary(topic=it, topic_id="", version=1, created_at_ms=0, partitions=1, config={}) for it in names]


@given(st.data(), st.integers(1, 3))
def test_nothing_is_missed_or_repeated(data: st.DataObject, limit: int) -> None:
    stays = data.draw(st.sets(st.text(max_size=3), max_size=12))
    told: list[str] = []
    cursor = None
    for _ in range(60):
        comes_and_goes = data.draw(st.sets(st.text(max_size=3), max_size=3))
        names = list(stays | comes_and_goes)
        random.Random(len(told)).shuffle(names)
        found = page(named(names), limit, cursor)
        assert len(found.items) <= limit
        told += [it.topic for it in found.items]
        cursor = found.next
        if cursor is None:
            break
    assert cursor is None
    assert told == sorted(set(told))
    assert stays <= set(told)


@given(st.text() | st.binary().map(lambda it: it.decode("latin-1")))
def test_a_cursor_is_one_of_ours_or_refused(cursor: str) -> None:
    for names in ([], ["a", "b"]):
        with contextlib.suppress(lithify.InvalidRequest):
            page(named(names), 1, cursor)


def test_pages_over_http(
    warehouse: lithify.Warehouse, serve: Callable[..., Served], clock: HandClock, admin: lithify.Admin
) -> None:
    near = lithify.Admin(warehouse)
    topic = warehouse.create_topic("users", 3, COMPACTED)
    warehouse.create_topic("others")
    for name in "bac":
        clock.now_ms += 1
        near.create_checkpoint("users", name)
        topic.consumer(name).close()
        for number in range(3):
            topic.partition(number).append([lithify.Record(b"k", b"v")], txn=(name, 1))
            near.submit("users", number)
    server = serve(near)
    paths = ["topics", "topics/users/checkpoints", "topics/users/consumers", "topics/users/transactions"]
    for path in [*paths, "compactions", "topics/users/explain"]:
        (whole, end) = (server("GET", f"/v1/{path}").json[each] for each in ("items", "next"))
        assert end is None
        assert len(whole) >= 2
        for limit in (1, 2, 3, len(whole), 1_000):
            told, cursor = [], ""
            while cursor is not None:
                found = server("GET", f"/v1/{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else "")).json
                assert len(found["items"]) <= limit
                told += found["items"]
                cursor = found["next"]
            assert told == whole, (path, limit)
    others = server("GET", "/v1/topics/users/consumers?limit=1").json["next"]
    assert server("GET", f"/v1/topics?cursor={others}").status == 400
    assert server("GET", f"/v1/topics?limit=1&cursor={others}").status == 400


def test_the_client_puts_pages_together(monkeypatch: pytest.MonkeyPatch, admin: lithify.Admin) -> None:
    monkeypatch.setattr("lithify.admin.http.client.LIMIT_MAX", 2)
    names = [f"t{number}" for number in range(5)]
    for name in names:
        admin.create_topic(name)
    assert [it.topic for it in admin.topics().items] == names


def test_the_cursor_is_no_secret_and_holds_none() -> None:
    found = page(named(["a", "b"]), 1, None)
    assert msgspec.json.decode(msgspec.json.encode(found))["next"] == "WyJhIl0"
