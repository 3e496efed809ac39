"""What a source is known by: another content under the same name is another import (docs/rfcs/0011)."""

import io
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lithify.cli.records.folder_imports import look_into
from lithify.cli.records.identity import LOOKED_AT_BYTES, Identity, identify, mark_of
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest, NotFound
from lithify.testing import s3
from tests.cli.conftest import Lithify, lines

THEN, LATER = 1_600_000_000, 1_700_000_000
FEW = LOOKED_AT_BYTES


def put(path: Path, body: bytes, at: int = THEN) -> None:
    path.write_bytes(body)
    os.utime(path, (at, at))


def test_another_content_of_the_same_size_and_time_is_another_import(on_files: Lithify, tmp_path: Path) -> None:
    """As files of reproducible archives are, and those that a copy gave their former time."""
    on_files.ok("topic", "create", "days")
    path = tmp_path / "daily.jsonl"
    for day in ("monday", "tusday"):
        put(path, lines({"key": "a", "value": day}).encode())
        assert on_files.json("append", "days", "--from", str(path))["appended"] == 1
    assert on_files.json("append", "days", "--from", str(path))["already_there"] == 1


def test_the_same_bytes_at_another_time_are_the_same_import(on_files: Lithify, tmp_path: Path) -> None:
    """Fetched again, copied, touched: an import that was interrupted goes on."""
    on_files.ok("topic", "create", "days")
    path = tmp_path / "daily.jsonl"
    for at in (THEN, LATER):
        put(path, lines({"key": "a", "value": "1"}, {"key": "b", "value": "2"}).encode() + b"bad", at)
        on_files.refused("append", "days", "--from", str(path), "--batch-size", "2", code=2, saying="line 3 is not")
    assert len(on_files.records("read", "days")) == 2


def test_of_what_is_looked_at_as_a_whole_nothing_else_counts(site: "Site", tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    put(path, bytes(4 * FEW))
    before = identify(str(path), {})
    put(path, bytes(4 * FEW), LATER)
    assert identify(str(path), {}) == before
    for size, ranges in [(0, True), (1, False), (FEW, True), (FEW - 1, False), (2 * FEW, True)]:
        site.body, site.ranges, site.headers = bytes(size), ranges, {"ETag": "one", "Last-Modified": "then"}
        before = site.identity()
        site.headers = {"ETag": "other", "Last-Modified": "later"}
        assert site.identity() == before


@pytest.mark.parametrize("at", [0, 40_000, FEW - 1, FEW, 3 * FEW, -FEW, -1])
def test_wherever_a_local_file_differs(tmp_path: Path, at: int) -> None:
    """Small ones are looked at as a whole."""
    path, body = tmp_path / "in.jsonl", bytearray(4 * FEW)
    put(path, body)
    before = identify(str(path), {})
    assert identify(path.as_uri(), {}) == before
    assert not before.compared
    body[at] = 1
    put(path, body)
    assert identify(str(path), {}) != before


def test_of_a_large_local_file_both_ends_and_the_time_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.cli.records.identity.LOCAL_BYTES", 100)
    path, body = tmp_path / "in.jsonl", bytearray(1_000)
    put(path, body)
    before = identify(str(path), {})
    for at in (0, 99, -100, -1):
        put(path, body[:at] + b"1" + body[at:][1:])
        assert len(path.read_bytes()) == 1_000
        assert identify(str(path), {}) != before
    put(path, body, LATER)
    assert identify(str(path), {}) != before
    put(path, body)
    assert identify(str(path), {}) == before


def test_a_pipe_is_not_read_and_has_a_new_name_each_time(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    one, other = identify(str(path), {}), identify(str(path), {})
    assert one.new
    assert one.name.startswith("pipe.jsonl-")
    assert one != other
    assert identify("-", {}).new


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(NotFound):
        identify("/nowhere/in.jsonl", {})
    with pytest.raises(InvalidRequest):
        identify("/tmp", {})


class Site:
    """What an HTTP server has, and what it tells of it."""

    def __init__(self) -> None:
        self.body = b""
        self.headers: dict[str, str] = {}
        self.ranges = True
        self.asked: list[tuple[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(b"")

            def do_GET(self) -> None:
                self.answer(site.body)

            def answer(self, body: bytes) -> None:
                asked = self.headers.get("Range", "")
                site.asked.append((self.command, asked))
                total, status, more = len(site.body), 200, {}
                if site.ranges and asked:
                    start, _, end = asked.removeprefix("bytes=").partition("-")
                    first, last = int(start), min(int(end), total - 1)
                    body, status = body[first : last + 1], 206
                    more = {"Content-Range": f"bytes {first}-{last}/{total}"}
                self.send_response(status)
                length = len(body) if self.command == "GET" else total
                for name, value in {"Content-Length": str(length), **more, **site.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/in.jsonl"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def identity(self) -> Identity:
        return identify(self.url, {})


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("name", ["Last-Modified", "ETag", "Content-MD5", "Digest"])
def test_each_thing_that_an_http_server_tells_of_a_file_counts(site: Site, name: str, ranges: bool) -> None:
    site.ranges, site.body = ranges, bytes(10 * FEW)
    site.headers = {name: "one"} if ranges else {name: "one", "Accept-Ranges": "none"}
    before = site.identity()
    assert site.identity() == before
    assert not before.compared
    site.headers[name] = "other"
    assert site.identity() != before


@pytest.mark.parametrize(("at", "ranges"), [(0, True), (0, False), (FEW - 1, False), (-1, True), (-FEW, True)])
def test_both_ends_count_over_http_and_of_a_stream_the_beginning(site: Site, at: int, ranges: bool) -> None:
    body = bytearray(10 * FEW)
    site.ranges, site.body = ranges, bytes(body)
    before = site.identity()
    assert site.identity() == before
    body[at] = 1
    site.body = bytes(body)
    assert site.identity() != before


def test_what_was_compared_is_said_where_nothing_else_is_told(site: Site) -> None:
    for size, ranges, compared in [
        (FEW, False, ""),
        (10 * FEW, False, "its first 64 KiB"),
        (2 * FEW, True, ""),
        (2 * FEW + 1, True, "its first and last 64 KiB"),
    ]:
        site.body, site.ranges = bytes(size), ranges
        assert site.identity().compared == compared


def test_a_stream_that_gives_little_at_a_time_is_looked_at_as_far_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, next(sizes)))

        def seek(self, *_: int) -> int:
            raise ValueError("forward only")

    url = f"memory://{new_id()}/in.jsonl"
    with fsspec.open(url, "wb") as file:
        file.write(bytes(3 * FEW))
    names = set[str]()
    for step in (1_000, 7_777, FEW):
        sizes = itertools.repeat(step)
        monkeypatch.setattr(MemoryFileSystem, "open", lambda *_, **__: Trickle(bytes(3 * FEW)))
        names.add(identify(url, {}).name)
    assert len(names) == 1


def test_a_look_takes_little(site: Site) -> None:
    site.body = bytes(100 * FEW)
    site.identity()
    got = [asked for method, asked in site.asked if method == "GET"]
    assert len(got) == 2
    assert all(asked.startswith("bytes=") for asked in got)
    sizes = [int(end) - int(start) + 1 for start, _, end in (a.removeprefix("bytes=").partition("-") for a in got)]
    assert sum(sizes) <= 4 * FEW


def test_where_only_the_beginning_could_be_compared_it_is_said(on_files: Lithify, site: Site) -> None:
    on_files.ok("topic", "create", "prices")
    rows = [{"key": f"k{n}", "value": "x" * 40} for n in range(2_000)]
    site.ranges = False
    site.body = lines(*rows, {"key": "price", "value": "100"}).encode()
    assert on_files.json("append", "prices", "--from", site.url)["appended"] == 2_001
    site.body = lines(*rows, {"key": "price", "value": "999"}).encode()
    told = on_files("append", "prices", "--from", site.url)
    assert told.exit_code == 0
    assert "2001 of this source already in the log" in told.stdout
    assert "only its first 64 KiB were compared; if the content has changed, give another --source-id" in told.stderr
    site.headers["Last-Modified"] = "Sun, 01 Mar 2026 00:00:00 GMT"
    assert on_files.json("append", "prices", "--from", site.url)["appended"] == 2_001
    site.body = lines({"key": "few", "value": "1"}).encode()
    site.headers = {}
    for _ in range(2):
        assert on_files("append", "prices", "--from", site.url).stderr == ""  # all of it was


def shape(**told: Any) -> dict[str, Any]:
    return {"name": "in.jsonl", "size": 9, "type": "file", **told}


# What fsspec's filesystems tell of a file, as their sources have it.
TOLD: dict[str, tuple[str, ...]] = {
    "abfs": ("etag", "last_modified"),
    "dropbox": ("content_hash", "server_modified"),
    "ftp": ("modify",),
    "gcs": ("etag", "md5Hash", "crc32c", "generation", "mtime", "updated"),
    "gdrive": ("md5Checksum", "modifiedTime"),
    "github": ("sha",),
    "hdfs": ("mtime",),
    "http": ("ETag", "Content-MD5", "Digest", "Last-Modified"),
    "local": ("mtime", "created"),
    "memory": ("created",),
    "oci": ("etag", "md5", "timeModified"),
    "s3": ("ETag", "VersionId", "LastModified"),
    "sftp": ("mtime",),
    "smb": ("last_write_time",),
    "webhdfs": ("modificationTime",),
    "zip": ("CRC", "date_time"),
}


@pytest.mark.parametrize(("protocol", "name"), [(protocol, name) for protocol in TOLD for name in TOLD[protocol]])
def test_each_name_for_a_version_or_a_time_is_known(protocol: str, name: str) -> None:
    assert mark_of(shape(**{name: "one"})) != mark_of(shape(**{name: "other"}))
    assert mark_of(shape(**{name: None})) == mark_of(shape()) == ""


def test_what_follows_the_content_counts_before_the_time() -> None:
    """The same object, stored again."""
    assert mark_of(shape(ETag="1", LastModified=1)) == mark_of(shape(ETag="1", LastModified=2))


def on_memory() -> tuple[str, dict[str, Any], Callable[[], None]]:
    return f"memory://{new_id()}/in.jsonl", {}, lambda: None


def on_s3() -> tuple[str, dict[str, Any], Callable[[], None]]:
    server = s3()
    options = {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": server.endpoint_url}}
    return f"s3://{server.create_bucket()}/in.jsonl", options, server.stop


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [on_memory, on_s3])
@pytest.mark.parametrize("at", [0, -1])
def test_wherever_an_object_differs(protocol: Any, at: int) -> None:
    url, options, stop = protocol()
    body = bytearray(10 * FEW)
    with fsspec.open(url, "wb", **options) as file:
        file.write(bytes(body))
    before = identify(url, options)
    assert identify(url, options) == before
    body[at] = 1
    with fsspec.open(url, "wb", **options) as file:
        file.write(bytes(body))
    assert identify(url, options) != before
    stop()


def test_the_same_bytes_at_another_place_are_another_import(tmp_path: Path) -> None:
    names = set[str]()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        put(tmp_path / folder / "in.jsonl", b"{}")
        names.add(identify(str(tmp_path / folder / "in.jsonl"), {}).name)
    assert len(names) == 2


def test_the_same_place_spelled_otherwise_is_the_same_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sales" / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"key": ["k"], "value": ["v"]}), tmp_path / "sales" / "a.parquet")
    monkeypatch.chdir(tmp_path / "sales")
    spellings = [f"{tmp_path}/sales/", "../sales/", f"{tmp_path}/sales/deep/..//./", "./", f"file://{tmp_path}//sales/"]
    assert len({look_into(url, {}).name for url in spellings}) == 1
    assert len({identify(url + "a.parquet", {}).name for url in spellings}) == 1
