"""deploy/policies on a real S3 server: each role does its work with its policy alone, asks for nothing that it is not
granted, and is refused every step beyond it."""

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from botocore.exceptions import ClientError

import lithify
from lithify.admin.http.ready import Ready
from lithify.testing.front import Front, Seen
from tests.endpoint import Endpoint
from tests.rgw import Rgw
from tests.service.conftest import Place

FOLDER = Path(__file__).parents[2] / "deploy" / "policies"
PREFIX = "warehouse"
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
KINDS = {
    r".*\.(manifest|runs|boundary|compactor|topic|witness)": r"\1",
    r".*\.parquet": "segment",
    r"@warehouse/.*": "warehouse",
    r"@ended/.*": "ended",
    r"\.lithify-clock/.*": "clock",
    r"\.ready": "ready",
    r"\.lithify-probe/.*": "probe",
}

# Who may do what to which object; whatever is not here is refused.
_LOG = {"manifest", "runs", "boundary", "topic", "clock", "probe"}
_ALL = {*_LOG, "compactor", "segment"}
GRANTS: dict[str, dict[str, set[str]]] = {
    "producer": {"get": _LOG, "put": {"manifest", "segment", "probe"}, "delete": {"probe"}},
    "reader": {"get": _ALL, "put": {"probe"}, "delete": {"probe"}},
    "compactor": {
        "get": {*_ALL, "witness"},
        "put": {"manifest", "runs", "compactor", "segment", "witness", "probe"},
        "delete": {"probe"},
    },
    "collector": {
        "get": {*_ALL, "witness"} - {"segment"},
        "put": {"manifest", "boundary", "ended", "probe"},
        "delete": {"manifest", "runs", "compactor", "boundary", "segment", "witness", "ended", "probe"},
    },
    "dashboard": {"get": {*_ALL, "witness", "ready"}, "put": {"probe"}, "delete": {"probe"}},
}
KEYS = {
    "manifest": "users/0123456789abcdef/00000/manifest/00000000000000000001.manifest",
    "runs": "users/0123456789abcdef/00000/manifest/00000000000000000001-0123456789abcdef-0.runs",
    "boundary": "users/0123456789abcdef/00000/boundary/00000000000000000001.boundary",
    "compactor": "users/0123456789abcdef/00000/compactor/00000000000000000001.compactor",
    "topic": "users/config/00000000000000000001.topic",
    "segment": "users/0123456789abcdef/00000/segments/000000000001-0123456789abcdef.parquet",
    "witness": "users/0123456789abcdef/witness/first.witness",
    "warehouse": "@warehouse/config/00000000000000000001.warehouse",
    "ended": "@ended/users/00000000000000000001.over",
    "clock": ".lithify-clock/none",
    "ready": ".ready",
    "probe": ".lithify-probe/0123456789abcdef/race/00000",
    "other": "notes.txt",
    "outside": "../elsewhere/a.manifest",
}


class Used(NamedTuple):
    action: str
    kind: str


@pytest.fixture(scope="session")
def users(rgw: Rgw) -> Iterator[dict[str, Endpoint]]:
    """One for each role."""
    found = {role: rgw.user(role) for role in GRANTS}
    yield found
    for each in found.values():
        each.close()


@pytest.fixture(autouse=True)
def _all_runs_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)


@pytest.fixture
def guarded(place: Place, users: dict[str, Endpoint]) -> Place:
    """All five policies in force."""
    statements: list[Any] = []
    for role in users:
        text = (FOLDER / f"{role}.json").read_text(encoding="utf-8")
        names = {"PRINCIPAL": f"arn:aws:iam:::user/{role}", "BUCKET": place.bucket, "PREFIX": PREFIX}
        for name, value in names.items():
            text = text.replace(name, value)
        statements += json.loads(text)["Statement"]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    place.owner.client.put_bucket_policy(Bucket=place.bucket, Policy=policy)
    return place


def kind_of(key: str) -> str:
    for pattern, kind in KINDS.items():
        if found := re.fullmatch(pattern, key):
            return found.expand(kind)
    return "other"


def used(seen: list[Seen]) -> set[Used]:
    """Of single objects. A bulk deletion names its keys in its body: the test of the collector asks what has gone."""
    actions = {"GET": "get", "HEAD": "get", "PUT": "put", "POST": "put", "DELETE": "delete"}
    found: set[Used] = set()
    for each in seen:
        parts = urlsplit(each.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        if key and "uploads" not in parse_qs(parts.query, keep_blank_values=True):
            found.add(Used(actions[each.method], kind_of(key.removeprefix(f"{PREFIX}/"))))
    return found


def produce(warehouse: lithify.Warehouse) -> None:
    topic = warehouse.topic("users")
    topic.append([lithify.Record(b"k", b"v")])
    with topic.producer("service-1") as producer:
        producer.append(b"k", b"w")


def read(warehouse: lithify.Warehouse) -> None:
    partition = warehouse.topic("users").partition(0)
    assert len(list(partition.read())) >= 1
    assert partition.get(b"k") is not None
    assert partition.scan().read_all().num_rows >= 1
    assert partition.describe().next_offset >= 1


def compact(warehouse: lithify.Warehouse) -> None:
    compactor = lithify.Compactor(warehouse, engine="local")
    report = compactor.run_once()
    compactor.close()
    assert [job.status for job in report.jobs] == ["completed"], report


def collect(warehouse: lithify.Warehouse) -> None:
    collector = lithify.Collector(warehouse, grace_ms=0)
    for _ in range(3):
        report = collector.run_once(sweep=True)
        assert [part.fault for part in report.partitions if part.fault] == []


def look(warehouse: lithify.Warehouse) -> None:
    admin = lithify.Admin(warehouse)
    assert admin.overview().partitions
    assert admin.health().checks[-1].verdict == "ok"
    assert admin.explain("users", 0).action
    assert admin.history("users", b"k").versions
    assert admin.gc(dry_run=True).ending
    assert admin.compactions("users")
    Ready(warehouse.driver)()


WORK: dict[str, Callable[[lithify.Warehouse], None]] = {
    "producer": produce,
    "reader": read,
    "compactor": compact,
    "collector": collect,
    "dashboard": look,
}


@pytest.mark.parametrize("role", list(WORK))
def test_a_role_does_its_work_and_uses_what_it_is_granted(
    role: str, guarded: Place, users: dict[str, Endpoint]
) -> None:
    with guarded.open() as owned:
        for name in ("users", "gone"):
            partition = owned.create_topic(name, 1, COMPACTED).partition(0)
            for _ in range(3):
                partition.append([lithify.Record(b"k", b"v" * 1_000)])
        if role in ("collector", "dashboard"):
            compact_all(owned)
            owned.topic("users").partition(0).append([lithify.Record(b"k", b"v")])
            owned.delete_topic("gone")
        if role == "compactor":
            owned.delete_topic("gone")
            large = [lithify.Record(b"%d" % n, random.Random(n).randbytes(900_000)) for n in range(24)]
            owned.topic("users").partition(0).append(large)  # its output is uploaded in parts
    with ExitStack() as stack:
        front = stack.enter_context(Front(guarded.owner.endpoint_url))
        options = front.options(users[role].options)
        WORK[role](stack.enter_context(lithify.open(guarded.url, storage_options=options)))
        done = used(front.seen)
        if role == "compactor":
            assert any("partNumber=" in seen.path for seen in front.seen)
    granted = {Used(action, kind) for action, kinds in GRANTS[role].items() for kind in kinds}
    print(f"{role}: not used of what is granted: {sorted(granted - done)}")
    assert done - granted == set()


@pytest.mark.parametrize("role", list(WORK))
def test_a_role_may_find_out_whether_the_store_is_fit(role: str, guarded: Place, users: dict[str, Endpoint]) -> None:
    """The first step of the runbook, with the credentials at hand; a service does the same when it starts. Only the
    collector may look for unfinished uploads, and the producer may not read `.compactor`."""
    with guarded.open() as owned:
        owned.create_topic("users", 1, COMPACTED).partition(0).append([lithify.Record(b"k", b"v")])
        compact_all(owned)
    said = guarded.command_of(users[role])("doctor", "--rounds", "2", "--json")
    found = {check["name"]: (check["verdict"], check["detail"]) for check in json.loads(said.stdout)["checks"]}
    probed = {name: verdict for name, (verdict, _) in found.items() if name.startswith("store: ")}
    assert {"store: simultaneous creates", "store: delete", "store: clean up"} <= probed.keys()
    assert set(probed.values()) == {"ok"}, found
    assert found.get("users/0", ("ok",))[0] == ("failure" if role == "producer" else "ok")
    assert found["stale temporaries"][0] == ("ok" if role == "collector" else "warning")
    assert said.exit_code == (9 if role == "producer" else 0)
    kept = guarded.owner.client.list_objects_v2(Bucket=guarded.bucket, Prefix=f"{PREFIX}/.lithify-probe/")
    assert kept["KeyCount"] == 0


def compact_all(warehouse: lithify.Warehouse) -> None:
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.run_once()
    compactor.close()


@pytest.mark.parametrize("role", list(GRANTS))
def test_every_step_beyond_its_policy_is_refused(role: str, guarded: Place, users: dict[str, Endpoint]) -> None:
    """Each object, each action: refused, or allowed as the table says."""
    found: dict[str, set[str]] = {"get": set(), "put": set(), "delete": set()}
    owner, client = guarded.owner.client, users[role].client
    for kind, name in KEYS.items():
        key = name.removeprefix("../") if name.startswith("../") else f"{PREFIX}/{name}"
        target = {"Bucket": guarded.bucket, "Key": key}
        steps: dict[str, Callable[[], Any]] = {
            "get": lambda target=target: client.get_object(**target),
            "put": lambda target=target: client.put_object(**target, Body=b"x"),
            "delete": lambda target=target: client.delete_object(**target),
        }
        for action, step in steps.items():  # deletion last
            owner.put_object(**target, Body=b"x")
            with suppress(Refused), refusing():
                step()
                found[action].add(kind)
    assert found == GRANTS[role]
    owner.put_object(Bucket=guarded.bucket, Key=f"{PREFIX}/{KEYS['manifest']}", Body=b"x")
    for step in (
        lambda: client.put_bucket_policy(Bucket=guarded.bucket, Policy="{}"),
        lambda: client.delete_bucket_policy(Bucket=guarded.bucket),
        lambda: client.put_object_acl(Bucket=guarded.bucket, Key=f"{PREFIX}/{KEYS['manifest']}", ACL="public-read"),
        lambda: client.delete_bucket(Bucket=guarded.bucket),
    ):
        with pytest.raises(Refused), refusing():
            step()


class Refused(Exception):
    pass


class refusing:  # noqa: N801 - a context manager
    """Turns the server's AccessDenied into Refused."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "AccessDenied":
            raise Refused from error
