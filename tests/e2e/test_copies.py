"""A warehouse that was copied file by file, and has the same URL as the original: it neither moves nor deletes anything
in a home that is the original's, whoever of the two comes first; the original goes on (docs/rfcs/0032).

A copied folder takes the original's place for a while, as if each were on a machine of its own. A copied bucket has the
same name behind another endpoint.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import moto.s3.models
import pytest
from click.testing import CliRunner, Result

import lithify
from lithify.cli.main import cli
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import Setting
from lithify.manifest.model import Manifest
from lithify.store.owners import witnesses
from lithify.testing.server import S3Server
from tests.clock import HandClock
from tests.log.compaction import files_of
from tests.store.claiming import OF_AN_EARLIER_RELEASE

HOUR_MS = 3_600_000
GRACE_MS = 600_000
COPIED = "belongs to another warehouse of the same URL"
CONFIG: dict[str, Setting] = {
    "cleanup.policy": "compact",
    "local.retention.ms": HOUR_MS,
    "hot.retain.segments": 0,
    "l0.segments.tier": 2,
    "min.cleanable.dirty.ratio": 0,
}


class Twins(ABC):
    """A warehouse and its copy, which share a home."""

    home: str

    def __init__(self) -> None:
        self.clock = HandClock()

    @abstractmethod
    def opened(self, which: str) -> Any:
        """A context manager: the warehouse, "original" or "copy"."""

    @abstractmethod
    def copy(self) -> None: ...

    @abstractmethod
    def cold(self) -> set[str]:
        """The segments in the home."""

    def append(self, warehouse: Warehouse, value: bytes) -> None:
        for number in range(2):
            record = lithify.Record(b"%d" % number, value, timestamp_ms=self.clock.now_ms)
            warehouse.topic("users").partition(0).append([record])

    def compact(self, warehouse: Warehouse) -> lithify.MaintenanceReport:
        return lithify.Compactor(warehouse, engine="local").run_once(take_over=True)

    def ages(self, warehouse: Warehouse) -> lithify.MaintenanceReport:
        """What was compacted becomes old enough to move."""
        self.clock.now_ms += HOUR_MS + 1
        return self.compact(warehouse)

    def collect(self, warehouse: Warehouse) -> tuple[set[str], set[str]]:
        """All that goes in several passes and sweeps, by keys in the home, and why some does not."""
        collector, deleted, why = lithify.Collector(warehouse, grace_ms=GRACE_MS), set[str](), set[str]()
        for sweep in (False, True, False, True):
            self.clock.now_ms += 2 * GRACE_MS
            report = collector.run_once(sweep=sweep)
            deleted |= {each.key for each in report.deleted if each.home}
            why |= {part.fault.message for part in report.partitions if part.fault is not None}
        return deleted, why


class Folders(Twins):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.home = f"file://{root}/cold"

    @contextmanager
    def opened(self, which: str) -> Generator[Warehouse]:
        here = self._root / "warehouse"
        if (self._root / which).exists():
            (self._root / which).rename(here)
        try:
            with lithify.open(str(here), clock=self.clock) as warehouse:
                yield warehouse
        finally:
            here.rename(self._root / which)

    def copy(self) -> None:
        shutil.copytree(self._root / "original", self._root / "copy")

    def cold(self) -> set[str]:
        return {str(path.relative_to(self._root / "cold")) for path in (self._root / "cold").rglob("*.parquet")}


class Elsewhere(S3Server):
    """The same objects, but a bucket is another one than its name says."""

    def __init__(self, bucket: str, meant: str) -> None:
        super().__init__()
        inner: Callable[..., Iterable[bytes]] = self._server.app

        def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            if path.split("/")[1] == bucket:
                environ["PATH_INFO"] = environ["RAW_URI"] = f"/{meant}{path[len(bucket) + 1 :]}"
            return inner(environ, start_response)

        self._server.app = app


class Buckets(Twins):
    def __init__(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._server = server
        self._monkeypatch = monkeypatch
        self._bucket, self._copy, self._cold = (server.create_bucket() for _ in range(3))
        self.home = f"s3://{self._cold}/c"
        self._elsewhere = Elsewhere(self._bucket, self._copy)

    @contextmanager
    def opened(self, which: str) -> Generator[Warehouse]:
        server = self._server if which == "original" else self._elsewhere
        with lithify.open(f"s3://{self._bucket}/w", storage_options=server.options, clock=self.clock) as warehouse:
            yield warehouse

    def copy(self) -> None:
        """Some seconds after the witness: within its second, a copy has the same time (RFC 0032)."""
        client = lithify.open(f"s3://{self._bucket}/w", storage_options=self._server.options)
        with client as warehouse, self._monkeypatch.context() as patched:
            now = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=5)
            patched.setattr(moto.s3.models, "utcnow", lambda: now)
            with lithify.open(f"s3://{self._bucket}/w", storage_options=self._elsewhere.options) as there:
                for found in warehouse.store.list("").objects:
                    there.store.put(found.key, warehouse.store.read(found.key, 0, found.size))

    def cold(self) -> set[str]:
        with lithify.open(self.home, storage_options=self._server.options) as home:
            return {found.key for found in home.store.list("").objects if found.key.endswith(".parquet")}

    def close(self) -> None:
        self._elsewhere.stop()
        for bucket in (self._bucket, self._copy, self._cold):
            self._server.delete_bucket(bucket)


def moved_whole(twins: Twins, warehouse: Warehouse) -> None:
    """A topic whose segments are all in the home."""
    warehouse.create_topic("users", config={**CONFIG, "cold.location": twins.home}, probe=False)
    twins.append(warehouse, b"old")
    twins.compact(warehouse)
    twins.ages(warehouse)
    assert all(each.home == twins.home for each in head(warehouse).segments())


@pytest.fixture(params=["folders", pytest.param("buckets", marks=pytest.mark.slow)])
def twins(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Twins]:
    """The original's segments are all in the home."""
    made: Twins
    if request.param == "folders":
        made = Folders(tmp_path)
    else:
        made = Buckets(request.getfixturevalue("lithify_s3"), monkeypatch)
    with made.opened("original") as warehouse:
        moved_whole(made, warehouse)
    yield made
    if isinstance(made, Buckets):
        made.close()


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users").head())


def contents(warehouse: Warehouse) -> set[bytes | None]:
    return {record.value for record in warehouse.topic("users").partition(0).read()}


def used(twins: Twins, which: str, value: bytes) -> None:
    """Records replace the old ones, so that cold segments are garbage of this warehouse's; in time it wants to move the
    new ones, and it collects and sweeps."""
    with twins.opened(which) as warehouse:
        before, mine = twins.cold(), which == "original"
        twins.append(warehouse, value)
        twins.compact(warehouse)
        lithify.Admin(warehouse).submit("users", 0)
        twins.compact(warehouse)
        moves = [job for job in twins.ages(warehouse).jobs if job.kind == "relocate"]
        deleted, why = twins.collect(warehouse)
        assert contents(warehouse) == {value}
        if mine:
            assert not why
            assert deleted, "what was replaced is gone"
            assert [job.status for job in moves] == ["completed"]
            assert {each.home for each in head(warehouse).segments()} == {twins.home}
        else:
            assert not deleted
            assert all(COPIED in each for each in why)
            assert why
            assert twins.cold() == before
            assert not any(job.status == "completed" for job in moves)


def test_the_copy_comes_first_and_deletes_nothing_there(twins: Twins) -> None:
    twins.copy()
    used(twins, "copy", b"1")
    used(twins, "original", b"2")
    used(twins, "copy", b"3")


def test_the_original_comes_first_and_a_sweep_of_the_copy_takes_nothing_that_came_later(twins: Twins) -> None:
    """The copy's manifest does not name what the original has moved there, and it is old."""
    twins.copy()
    used(twins, "original", b"1")
    there = twins.cold()
    assert there
    with twins.opened("copy") as warehouse:
        deleted, why = twins.collect(warehouse)
        assert not deleted
        assert any(COPIED in each for each in why)
    assert twins.cold() == there
    used(twins, "original", b"2")


def test_the_copy_that_adopts_goes_on_and_the_original_is_the_copy_then(twins: Twins) -> None:
    twins.copy()
    with twins.opened("copy") as warehouse:
        assert lithify.Admin(warehouse).adopt_home("users") == (twins.home,)
        twins.append(warehouse, b"new")
        twins.compact(warehouse)
        lithify.Admin(warehouse).submit("users", 0)
        twins.compact(warehouse)
        twins.ages(warehouse)
        deleted, why = twins.collect(warehouse)
        assert (bool(deleted), why) == (True, set())
        there = twins.cold()
    with twins.opened("original") as warehouse:
        deleted, why = twins.collect(warehouse)
        assert not deleted
        assert any(COPIED in each for each in why)
    assert twins.cold() == there


def test_a_deleted_topic_takes_its_witness_with_it(twins: Twins) -> None:
    """Not before everything in the home is gone: until then it says that this may be deleted."""
    twins.copy()
    with twins.opened("original") as warehouse:
        prefix = witnesses("users", head(warehouse).topic_id)
        left = [prefix + "first.witness"]
        assert [each.key for each in warehouse.store.list(prefix).objects] == left
        twins.collect(warehouse)
        assert [each.key for each in warehouse.store.list(prefix).objects] == left
        warehouse.delete_topic("users")
        collector = lithify.Collector(warehouse, grace_ms=GRACE_MS)
        for _ in range(8):
            twins.clock.now_ms += 2 * GRACE_MS
            would = {each.key for each in collector.run_once(dry_run=True, sweep=True).deleted if not each.home}
            gone = {each.key for each in collector.run_once(sweep=True).deleted}
            assert not (twins.cold() and gone & set(left))
            assert (would & set(left)) <= gone
        assert not twins.cold()
        assert not warehouse.store.list(prefix).objects
    with twins.opened("copy") as warehouse:
        warehouse.delete_topic("users")
        twins.collect(warehouse)
        kept = [each.key for each in warehouse.store.list(prefix).objects]
        assert kept == left, "it may yet adopt the home, and collect there"


def lithify_said(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments], env={"LITHIFY_WAREHOUSE": url})


def test_doctor_and_the_command_that_ends_it(tmp_path: Path) -> None:
    twins = Folders(tmp_path)
    with twins.opened("original") as warehouse:
        moved_whole(twins, warehouse)
        assert not health_of(warehouse, twins.home).startswith("warning")
    twins.copy()
    with twins.opened("copy") as warehouse:
        assert health_of(warehouse, twins.home).startswith("warning: answers, but nothing moves or is deleted there")
        assert f"home {twins.home}: it {COPIED} ({warehouse.url}), of which this one is a copy" in health_of(
            warehouse, twins.home
        )
        done = lithify_said(warehouse.url, "home", "adopt", "users", "--yes")
        assert done.exit_code == 0
        assert f"users: this warehouse owns {twins.home} now" in done.output
        assert health_of(warehouse, twins.home) == "ok: answers; it is a home of users"
    with twins.opened("original") as warehouse:
        assert COPIED in health_of(warehouse, twins.home)


def health_of(warehouse: Warehouse, home: str) -> str:
    checks = lithify.Admin(warehouse).health().checks
    return next(f"{check.verdict}: {check.detail}" for check in checks if check.name == f"home {home}")


def test_the_first_move_after_an_upgrade_makes_the_warehouse_known(tmp_path: Path) -> None:
    """Until then the URL alone counts, as before; neither a look nor a collection changes that."""
    twins = Folders(tmp_path)
    with twins.opened("original") as warehouse:
        moved_whole(twins, warehouse)
        key, prefix = files_of(warehouse, "users").keys.owner, witnesses("users", head(warehouse).topic_id)
        file = tmp_path / "cold" / key
        earlier = OF_AN_EARLIER_RELEASE.replace(b"memory://ours", warehouse.url.encode())
        file.write_bytes(earlier)
        warehouse.store.delete([found.key for found in warehouse.store.list(prefix).objects])
        twins.append(warehouse, b"new")
        twins.compact(warehouse)
        lithify.Admin(warehouse).submit("users", 0)
        twins.compact(warehouse)
        health_of(warehouse, twins.home)
        deleted, why = twins.collect(warehouse)
        assert (bool(deleted), why, file.read_bytes()) == (True, set(), earlier)
        twins.ages(warehouse)
        assert b'"format":2' in file.read_bytes()
        assert len(warehouse.store.list(prefix).objects) == 1
