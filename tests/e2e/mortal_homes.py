"""A warehouse in one folder with its cold home in another, and compactors on it that are killed at a request."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lithify
from lithify.manifest.config import Setting
from lithify.manifest.model import Manifest, SegmentRef
from lithify.store.file import FileStore
from lithify.store.file_output import FileOutput
from tests.e2e.workload import partition_files

__all__ = ["Place", "killed_at"]

CONFIG: dict[str, Setting] = {
    "hot.retain.segments": 0,
    "l0.segments.tier": 2,
    "compaction.output.bytes": 4_096,
}
_REQUESTS = ("create", "get", "read", "put", "output", "head", "list", "delete")


class Place:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.warehouse = folder / "both" / "warehouse"
        self.cold = folder / "both" / "cold"
        self.home = f"file://{self.cold}"

    def prepare(self, policy: str, *, cold: bool) -> None:
        """A run of several segments, which all are to move to the cold home; or are there, and are to come back."""
        with lithify.open(str(self.warehouse)) as warehouse:
            topic = warehouse.create_topic("users", config={**CONFIG, "cleanup.policy": policy}, probe=False)
            for batch in range(2):
                rows = [lithify.Record(b"%d%04d" % (batch, key), os.urandom(100)) for key in range(60)]
                topic.partition(0).append(rows)
            self.compact()
            topic.alter({"cold.location": self.home, "local.retention.bytes": 0})
            if cold:
                self.compact()
                topic.alter({"local.retention.bytes": None})
                lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)
                lithify.Admin(warehouse).recall("users", 0)
        shutil.copytree(self._folder / "both", self._folder / "kept")

    def restore(self) -> None:
        shutil.rmtree(self._folder / "both")
        shutil.copytree(self._folder / "kept", self._folder / "both")
        if list(self.cold.rglob("home.json")):
            with lithify.open(str(self.warehouse)) as warehouse:
                lithify.Admin(warehouse).adopt_home("users")

    def compact(self) -> lithify.MaintenanceReport:
        with lithify.open(str(self.warehouse)) as warehouse:
            return lithify.Compactor(warehouse, engine="local").run_once(take_over=True)

    def sweep(self) -> None:
        with lithify.open(str(self.warehouse)) as warehouse:
            for _ in range(3):
                lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)

    def head(self) -> Manifest:
        with lithify.open(str(self.warehouse)) as warehouse:
            return warehouse.driver.run(partition_files(warehouse, "users").head())

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        with lithify.open(str(self.warehouse)) as warehouse:
            return [(each.offset, each.key, each.value) for each in warehouse.topic("users").partition(0).read()]

    def described(self) -> tuple[int, int]:
        """Bytes and segments of the partition, as a user sees them."""
        with lithify.open(str(self.warehouse)) as warehouse:
            runs = warehouse.topic("users").partition(0).describe().runs
        return sum(segment.bytes for run in runs for segment in run.segments), sum(len(run.segments) for run in runs)

    def files(self) -> dict[str, dict[str, int]]:
        """The sizes of the segments that lie in each home."""
        homes = {"": self.warehouse, self.home: self.cold}
        return {home: {f.stem: f.stat().st_size for f in at.rglob("*.parquet")} for home, at in homes.items()}


def named(segments: tuple[SegmentRef, ...], home: str) -> dict[str, int]:
    return {each.id: each.bytes for each in segments if each.home == home}


def killed_at(place: Place, number: int, only: str = "") -> bool:
    """One pass of a compactor in a process of its own, killed before its request of that number, to either store (of
    the kind `only`). Whether it was; else it had ended before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.e2e.mortal_homes"])
    process = context.Process(target=_compact, args=(str(place.warehouse), number, only))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _compact(url: str, number: int, only: str) -> None:
    left = [None] * number

    def mortal(method: Callable[..., Any]) -> Callable[..., Any]:
        def request(*args: Any, **kwargs: Any) -> Any:
            if only in ("", method.__name__):
                left.pop()  # from several threads at once
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
            return method(*args, **kwargs)

        return request

    for name in _REQUESTS:
        setattr(FileStore, name, mortal(getattr(FileStore, name)))
    for name in ("write", "close"):
        setattr(FileOutput, name, mortal(getattr(FileOutput, name)))
    with lithify.open(url) as warehouse:
        lithify.Compactor(warehouse, engine="local").run_once(take_over=True)
