"""`Admin` of a warehouse and `Admin` of its server: one must not be told from the other."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.admin.http.client import RemoteAdmin
from lithify.admin.http.routes import NOT_SERVED, ROUTES
from tests.admin.served import Served
from tests.admin.test_operations import COMPACTED, damage_head
from tests.clock import HandClock

pytestmark = pytest.mark.slow  # each test starts a server


@pytest.fixture
def far(near: lithify.Admin, serve: Callable[..., Served]) -> lithify.Admin:
    return lithify.Admin(serve(near).url)


@pytest.fixture
def users(warehouse: lithify.Warehouse) -> lithify.Topic:
    return warehouse.create_topic("users", 2, COMPACTED)


def test_every_method_has_its_route_or_a_reason() -> None:
    methods = {name for name, _ in inspect.getmembers(lithify.Admin, inspect.isfunction) if not name.startswith("_")}
    routed = {route.call for route in ROUTES}
    assert routed | NOT_SERVED.keys() == methods
    assert not routed & NOT_SERVED.keys()
    own = {name for name in vars(RemoteAdmin) if not name.startswith("_")} - {
        "ask",
        "ready",
    }  # these are about the server
    assert own == methods - {"compactions"}, "nothing reaches the methods that would need a warehouse"


def told(ask: Callable[[lithify.Admin], Any], admin: lithify.Admin) -> Any:
    """What it answers; or all that its error tells."""
    try:
        return ask(admin)
    except lithify.LithifyError as error:
        more = {name: getattr(error, name, None) for name in ("key", "segment", "token", "__notes__", "retryable")}
        return type(error), str(error), more


ODD_NAMES = [
    *("a/b", "/a", "a/", "//", ".", "..", "../../users", "a/../b", "./a", "%2F", "%", "a%20b", "a b", " a ", "a?b=c"),
    *("a#b", "a&b", "a;b", "a\\b", "a+b", '"', "ä", "日本", "🦉", "é", "reset", "a/reset", "x" * 200, "~", ":", "@"),
]
NO_NAMES = ["", "\n", "a\nb", "\x00", "a\r\nX: y", "\ud800", "x" * 5_000]


@pytest.mark.parametrize("name", [*ODD_NAMES, *NO_NAMES], ids=lambda name: repr(name)[:20])
def test_odd_names_of_what_users_name(name: str, users: lithify.Topic, near: lithify.Admin, far: lithify.Admin) -> None:
    asks: list[Callable[[lithify.Admin], Any]] = [
        lambda admin: admin.delete_checkpoint("users", name),
        lambda admin: admin.delete_checkpoint("users", name, 0),
        lambda admin: admin.delete_consumer("users", name),
        lambda admin: admin.reset_consumer("users", name, "latest"),
        lambda admin: admin.forget_transaction("users", name),
        lambda admin: admin.topic(name),
        lambda admin: admin.describe_topic(name),
        lambda admin: admin.delete_topic(name),
        lambda admin: admin.explain(name, 0),
        lambda admin: admin.health(name or None),
        lambda admin: admin.compaction(name),
        lambda admin: admin.readable_compactions(name or None),
    ]
    for ask in asks:
        assert told(ask, far) == told(ask, near)
    assert near.topic("users").version == 1, "nothing was done to another"
    if name in NO_NAMES:
        assert told(lambda admin: admin.create_checkpoint("users", name), far)[0] is lithify.InvalidRequest
        return
    made = far.create_checkpoint("users", name)
    assert [each.checkpoint.name for each in made.items] == [name] * 2
    assert far.checkpoints("users") == near.checkpoints("users") == made
    assert far.delete_checkpoint("users", name, 1).items == made.items[1:]
    assert far.delete_checkpoint("users", name).items == made.items[:1]
    users.consumer(name).close()
    assert far.consumers("users") == near.consumers("users")
    assert len(far.reset_consumer("users", name, "latest").items) == 2
    assert len(far.delete_consumer("users", name).items) == 2
    assert near.consumers("users").items == ()


WRONG: dict[str, Callable[[Any], Any]] = {
    "no topic": lambda admin: admin.topic("nobody"),
    "no partition": lambda admin: admin.describe("users", 2),
    "a negative partition": lambda admin: admin.describe("users", -1),
    "a huge partition": lambda admin: admin.describe("users", 10**30),
    "there already": lambda admin: admin.create_topic("users"),
    "an unknown setting": lambda admin: admin.alter_topic("users", {"no.such": 1}),
    "nothing to change": lambda admin: admin.alter_topic("users"),
    "fewer partitions": lambda admin: admin.alter_topic("users", None, 1),
    "too many partitions": lambda admin: admin.create_topic("many", 10**9),
    "no such offset": lambda admin: admin.delete_records("users", 0, 99),
    "a huge offset": lambda admin: admin.delete_records("users", 0, 10**30),
    "no such manifest": lambda admin: admin.manifest("users", 0, 99),
    "a huge manifest number": lambda admin: admin.manifest("users", 0, 10**30),
    "a damaged manifest": lambda admin: admin.manifest("users", 1),
    "all are damaged": lambda admin: admin.explain_topic("hurt"),
    "no sources": lambda admin: admin.submit("users", 0, []),
    "unknown sources": lambda admin: admin.submit("users", 0, ["nobody"]),
    "half a word": lambda admin: admin.submit("users", 0, "ful"),
    "an empty key": lambda admin: admin.submit("users", 0, idempotency_key=""),
    "a long key": lambda admin: admin.submit("users", 0, idempotency_key="k" * 65),
    "a key in Japanese": lambda admin: admin.submit("users", 0, idempotency_key="日本"),
    "a key of two lines": lambda admin: admin.submit("users", 0, idempotency_key="a\r\nX-More: b"),
    "a key with a blank at its end": lambda admin: admin.submit("users", 0, idempotency_key="a "),
    "no compaction": lambda admin: admin.compaction("users/0/000000000042-1a2b3c4d"),
    "no id": lambda admin: admin.compaction("users"),
    "an id in Arabic digits": lambda admin: admin.compaction("users/٠/j"),
    "an id and more": lambda admin: admin.cancel("users/0/000000000042-1a2b3c4d/explain"),
    "an offset for two": lambda admin: admin.reset_consumer("users", "c", 0),
    "a life of nothing": lambda admin: admin.create_checkpoint("users", "x", ttl_ms=0),
    "a key that is text": lambda admin: admin.history("users", "aw=="),
    "no key": lambda admin: admin.history("users", None),
    "a limit of 0": lambda admin: admin.history("users", b"k", limit=0),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_equal(
    name: str, warehouse: lithify.Warehouse, users: lithify.Topic, near: lithify.Admin, far: lithify.Admin
) -> None:
    warehouse.create_topic("hurt", 2)
    users.consumer("c").close()
    for topic, number in (("hurt", 0), ("hurt", 1), *([("users", 1)] if "damaged" in name else [])):
        damage_head(warehouse, topic, number)
    expected = told(WRONG[name], near)
    assert isinstance(expected, tuple)
    assert issubclass(expected[0], lithify.LithifyError)
    assert told(WRONG[name], far) == expected


def test_lists_come_in_the_same_order(
    users: lithify.Topic, near: lithify.Admin, far: lithify.Admin, clock: HandClock
) -> None:
    for name in ("z", "a", "m"):
        clock.now_ms += 1
        near.create_checkpoint("users", name)
        users.consumer(name).close()
        for number in (1, 0):
            users.partition(number).append([lithify.Record(b"k", b"v")], txn=(name, 1))
    for _ in range(6):
        clock.now_ms += 1
        near.submit("users", 1)
    near.cancel(near.compactions("users")[3].id)
    for ask in (near.checkpoints, near.consumers, near.transactions, near.readable_compactions, near.explain_topic):
        assert getattr(far, ask.__name__)("users") == ask("users"), ask.__name__
    assert far.compactions() == near.compactions()
    assert [each.transaction.application for each in far.transactions("users").items[:3]] == ["z", "a", "m"]


def test_what_no_server_takes_is_refused_before_it_is_asked(far: lithify.Admin) -> None:
    for ask in (
        far.verify,
        lambda: far.manifest_file("users", 0),
        lambda: far.gc(grace_ms=0),
        lambda: far.create_topic("users", probe=False),
    ):
        with pytest.raises(lithify.InvalidRequest, match="server"):
            ask()


@pytest.mark.parametrize("call", ["describe", "explain", "homes", "manifest", "retry", "submit", "relocate", "recall"])
def test_the_only_partition_needs_no_number(
    call: str, users: lithify.Topic, warehouse: lithify.Warehouse, near: lithify.Admin, far: lithify.Admin
) -> None:
    warehouse.create_topic("alone", 1, COMPACTED)
    for admin in (near, far):
        answers = told(lambda admin: getattr(admin, call)("alone"), admin)
        if call in ("relocate", "recall"):  # the request itself is refused
            assert answers == told(lambda admin: getattr(admin, call)("alone", 0), admin)
        else:
            assert getattr(answers, "partition", 0) == 0
            assert not isinstance(answers, tuple)
        for name in (users.name, "missing"):
            refused = told(lambda admin, name=name: getattr(admin, call)(name), admin)
            assert refused == told(lambda admin, name=name: getattr(admin, call)(name), near)
        kind, message, _ = told(lambda admin: getattr(admin, call)("users"), admin)
        assert (kind, message) == (
            lithify.InvalidRequest,
            "topic users has 2 partitions: say which one, from 0 to 1",
        )
