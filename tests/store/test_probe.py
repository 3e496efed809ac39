"""The probe passes where commits are safe, and refuses where they only look so."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from lithify.store.errors import InvalidRequest
from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Outcome, Store
from lithify.store.probe import ProbeReport, probe
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server

WRITERS = 8


def failures(report: ProbeReport) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


@pytest.mark.parametrize("store", ["memory", "file", "s3"], indirect=True)
def test_an_atomic_store_passes_and_keeps_nothing_of_the_probe(store: Store) -> None:
    report = probe(Metered(store), rounds=6)
    assert failures(report) == []
    report.require()
    assert store.list("").objects == ()
    assert report.url == store.url
    assert report.skew_ms is not None
    assert abs(report.skew_ms) < 10_000


def test_a_store_that_ignores_the_condition_fails_at_the_first_try(lithify_s3: S3Server, bucket: str) -> None:
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(ignore_condition=True)) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=2)
    assert failures(report) == ["create if absent", "simultaneous creates"]
    with pytest.raises(InvalidRequest, match=r"not safe for a log: create if absent \(.*If-None-Match is ignored here"):
        report.require()


def test_a_store_that_looks_and_then_writes_fails_only_in_the_race(lithify_s3: S3Server, bucket: str) -> None:
    """Like Swift's S3 layer: one after the other the creates are refused, together they all win."""
    plain = S3Store(bucket, "p", lithify_s3.options)
    everybody_looked = threading.Barrier(WRITERS, timeout=60)

    def look_then_write(seen: Seen) -> Deed:
        if not seen.conditional or "/race/" not in seen.path:
            return Deed()
        absent = plain.get(seen.path.partition("/p/")[2]) is None
        everybody_looked.wait()
        return Deed(ignore_condition=absent)

    with Front(lithify_s3.endpoint_url, rule=look_then_write) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=1)
    assert failures(report) == ["simultaneous creates"]
    assert f"{WRITERS} of {WRITERS} writers were told that they had won" in report.checks[1].detail


@pytest.mark.slow
def test_moto_as_it_comes_fails() -> None:
    """It looks, then writes, as most test servers do: about one round in thirty has two winners."""
    command = [sys.executable, str(Path(__file__).with_name("stock_moto.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
        endpoint = server.stdout.readline().strip()
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        store = S3Store("bucket", "p", {"key": "test", "secret": "test", "client_kwargs": client})
        store.bulk_client().create_bucket(Bucket="bucket")
        report = probe(store, rounds=1500)
        server.stdin.close()
    assert failures(report) == ["simultaneous creates"]


class _OverwritesAlways(LocalFileSystem):
    """A filesystem that knows no `mode`, as those written before fsspec had it."""

    protocol = "overwrites"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, **options)


def test_the_first_create_through_fsspec_probes_the_place(tmp_path: Path) -> None:
    fsspec.register_implementation("overwrites", _OverwritesAlways, clobber=True)
    store = FsspecStore(f"overwrites://{tmp_path}/warehouse", {"auto_mkdir": True})
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="create if absent"):
            store.create("k", b"x")
    assert store.get("k") is None
    store.put("bulk", b"bytes")
    assert store.read("bulk", 0, 5) == b"bytes"


def test_local_files_through_fsspec_fail(tmp_path: Path) -> None:
    """Look, then write: about every second round has two winners."""
    report = probe(FsspecStore(f"file://{tmp_path}/warehouse", proven=True), rounds=300)
    assert failures(report) == ["simultaneous creates"]


def test_lost_replies_do_not_fail_a_sound_store(lithify_s3: S3Server, bucket: str) -> None:
    with Front(lithify_s3.endpoint_url, lambda seen: seen.conditional) as front:
        front.plan(*[Deed(reply="none"), Deed(), Deed(status=500)] * 8)
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=4)
    assert failures(report) == []


@pytest.mark.parametrize("ignored", [False, True])
def test_a_versioned_bucket_is_a_warning_unless_conditions_are_ignored(
    ignored: bool, lithify_s3: S3Server, bucket: str
) -> None:
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(ignore_condition=ignored)) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options))
        configuration = {"Status": "Enabled"}
        store.bulk_client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration=configuration)
        report = probe(store, rounds=1)
    (versioning,) = (check for check in report.checks if check.name == "versioning")
    assert not versioning.ok
    assert versioning.severity == ("failure" if ignored else "warning")
    assert report.ok == (not ignored)


def test_what_fails_becomes_a_finding(lithify_s3: S3Server) -> None:
    report = probe(S3Store("no-such-bucket", "p", lithify_s3.options), rounds=1)
    assert not report.ok
    assert all("create the bucket" in check.detail for check in report.checks if check.name == "create if absent")


class _WinnerLies(MemoryStore):
    """Tells every writer of a race that another won."""

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        outcome = super().create(key, body)
        return Outcome.EXISTS if "/race/" in key else outcome


def test_a_race_without_a_winner_fails() -> None:
    assert failures(probe(_WinnerLies(), rounds=1)) == ["simultaneous creates"]


def test_clocks_far_apart_are_a_warning() -> None:
    report = probe(MemoryStore(clock=lambda: 1_000), rounds=1)
    assert failures(report) == ["clock"]
    assert report.ok
    assert report.skew_ms is not None
    assert report.skew_ms < -(10**12)


def test_a_folder_that_cannot_be_written_is_a_finding() -> None:
    report = probe(FileStore("/dev/null/warehouse"), rounds=1)
    assert not report.ok
    with pytest.raises(InvalidRequest, match="part of it is a file"):
        report.require()
