"""The cache on disk is never wrong, never above its bound, and never in the way."""

import errno
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from lithify.manifest.keys import is_segment_key
from lithify.store.disk import Disk
from lithify.store.disk_cache import Cached, DiskCache
from lithify.store.disk_cache_counts import DiskCacheCounts
from lithify.store.errors import InvalidRequest, NotFound
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.opening_homes import CACHE_BYTES_MIN, opened_homes
from lithify.store.port import HERE

KEY = "users/0123456789abcdef/00000/segments/000000000001-0123456789abcdef.parquet"
PLACE = "s3://far/p"
BODY = bytes(range(256)) * 64  # 16 KiB, with its head five blocks
BLOCKS = 5 * 4096


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "used")


def size(folder: Path) -> int:
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in entries(folder))


def never() -> bytes:
    raise AssertionError("it should be in the cache")


def ask(cache: DiskCache, start: int = 0, fetch: Callable[[], bytes] = lambda: BODY) -> bytes:
    return bytes(cache.read((PLACE, KEY, start, len(BODY)), lambda _start, _length: fetch()))


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 64 * BLOCKS)


def test_it_reads_through_and_counts(cache: DiskCache) -> None:
    assert not cache.folder.exists(), "nothing is touched before something is read"
    assert [ask(cache), ask(cache, fetch=never), ask(cache, fetch=never)] == [BODY] * 3
    assert cache.counts() == DiskCacheCounts(2, 1, 2 * len(BODY), len(BODY))


def test_another_process_finds_it(cache: DiskCache) -> None:
    ask(cache)
    assert ask(DiskCache(cache.folder, cache.bytes_max), fetch=never) == BODY


@pytest.mark.parametrize("other", [("s3://near", KEY, 0), (PLACE, KEY + "x", 0), (PLACE, KEY, 1)])
def test_another_range_object_or_place_is_another_entry(cache: DiskCache, other: tuple[str, str, int]) -> None:
    ask(cache)
    assert cache.read((*other, len(BODY)), lambda _start, _length: BODY[::-1]) == BODY[::-1]
    (first, second) = entries(cache.folder)
    content = first.read_bytes()
    second.write_bytes(content)  # a file under a wrong name
    first.write_bytes(content)
    asked: list[int] = []
    for wanted, body in (((PLACE, KEY, 0), BODY), (other, BODY[::-1])):
        assert cache.read((*wanted, len(BODY)), lambda _start, _length, body=body: asked.append(1) or body) == body
    assert len(asked) == 1
    assert cache.counts().damaged == 1


@pytest.mark.parametrize("error", [NotFound("gone", KEY), KeyboardInterrupt()])
def test_a_failed_read_leaves_nothing(cache: DiskCache, error: BaseException) -> None:
    def fail() -> bytes:
        raise error

    with pytest.raises(type(error)):
        ask(cache, fetch=fail)
    assert not entries(cache.folder)


@given(at=st.integers(0, len(BODY) + 23), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    cache = DiskCache(tmp_path_factory.mktemp("flip"), 64 * BLOCKS)
    ask(cache)
    (entry,) = entries(cache.folder)
    content = bytearray(entry.read_bytes())
    content[at] ^= 1 << bit
    entry.write_bytes(content)
    assert [ask(cache), ask(cache, fetch=never)] == [BODY, BODY]
    assert cache.counts().damaged == 1


@pytest.mark.parametrize("content", [b"", BODY[:9], BODY * 2])
def test_an_entry_of_another_length_is_noticed(cache: DiskCache, content: bytes) -> None:
    ask(cache)
    (entry,) = entries(cache.folder)
    entry.write_bytes(content)
    assert [ask(cache), ask(cache, fetch=never)] == [BODY, BODY]


@pytest.mark.slow
def test_the_oldest_goes_and_the_bound_holds(cache: DiskCache) -> None:
    for number in range(64):
        ask(cache, number)
    assert size(cache.folder) == cache.bytes_max
    for age, entry in enumerate(sorted(entries(cache.folder), key=lambda path: int(path.name.partition("-")[0]))):
        os.utime(entry, ns=(age, age))
    ask(cache, 0, never)  # used just now
    ask(cache, 64)
    kept = {int(path.name.partition("-")[0]) for path in entries(cache.folder)}
    assert kept == {0, *range(10, 65)}, "an eighth has gone, the oldest first"
    for number in range(100, 400):
        ask(cache, number)
        assert size(cache.folder) <= cache.bytes_max


def test_what_is_too_large_a_part_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 8 * BLOCKS - 1)
    assert [ask(cache), ask(cache)] == [BODY, BODY]
    assert not entries(tmp_path)


@pytest.mark.parametrize("text", [b"", b"much", b"-5", b"\xff\xff"])
def test_a_damaged_sum_is_counted_again(cache: DiskCache, text: bytes) -> None:
    for number in range(64):
        ask(cache, number)
    (used,) = cache.folder.rglob("used")
    used.write_bytes(text)
    ask(cache, 64)
    assert size(cache.folder) <= cache.bytes_max
    assert int(used.read_bytes()) == size(cache.folder)


def test_it_may_be_deleted_while_it_is_used(cache: DiskCache) -> None:
    ask(cache)
    shutil.rmtree(cache.folder)
    assert [ask(cache), ask(cache, fetch=never)] == [BODY, BODY]
    shutil.rmtree(entries(cache.folder)[0].parent)
    assert [ask(cache), ask(cache, fetch=never)] == [BODY, BODY]
    assert cache.counts().failures == 0


class Broken(Disk):
    """Fails in one call, as a full, a broken or a read-only disk does."""

    def __init__(self, call: str, number: int) -> None:
        self.call = call
        self.error = OSError(number, os.strerror(number))

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise self.error

    def open(self, path: Path, flags: int) -> int:
        self._fail("create" if flags & os.O_CREAT else "open")
        return super().open(path, flags)

    def read_into(self, descriptor: int, buffers: Sequence[bytearray | memoryview], offset: int) -> int:
        self._fail("read")
        return super().read_into(descriptor, buffers, offset)

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.call == "half":
            super().write(descriptor, data[: len(data) // 2])
            raise self.error
        self._fail("write")
        return super().write(descriptor, data)

    def rename(self, source: Path, target: Path) -> None:
        self._fail("rename")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._fail("unlink")
        super().unlink(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["create", "write", "half", "rename", "open", "read"])
def test_a_disk_that_fails_costs_nothing_but_its_hits_and_is_told_of_once(
    tmp_path: Path, call: str, number: int
) -> None:
    ask(DiskCache(tmp_path, 64 * BLOCKS))
    cache = DiskCache(tmp_path, 64 * BLOCKS, disk=Broken(call, number))
    with structlog.testing.capture_logs() as logs:
        for start in (0, 1, 0, 2):
            assert ask(cache, start) == BODY
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("cache", "warning")]
    assert not [path for path in entries(tmp_path) if path.suffix == ".new"]
    assert cache.counts().failures


def test_a_full_disk_is_not_written_to_again_and_again(tmp_path: Path) -> None:
    disk = Broken("write", errno.ENOSPC)
    cache = DiskCache(tmp_path, 64 * BLOCKS, disk=disk)
    for start in range(100):
        ask(cache, start)
    assert cache.counts().failures == 1
    disk.call = "nothing"
    for start in range(100):
        ask(cache, start)
    assert len(entries(tmp_path)) > 0, "it is tried again later"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "cache", 64 * BLOCKS)
    with structlog.testing.capture_logs() as logs:
        assert [ask(cache), ask(cache)] == [BODY, BODY]
    assert len(logs) == 1


def test_nobody_else_may_look_into_it_or_write_there(cache: DiskCache) -> None:
    ask(cache)
    (root,) = cache.folder.iterdir()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o777)
    assert ask(cache, 1) == BODY
    assert len(entries(cache.folder)) == 1
    assert cache.counts().failures == 1


def test_links_are_not_followed(cache: DiskCache, tmp_path: Path) -> None:
    ask(cache)
    (entry,) = entries(cache.folder)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    asked: list[int] = []
    assert ask(cache, fetch=lambda: asked.append(1) or BODY) == BODY
    assert asked


def test_what_turns_out_wrong_is_forgotten(cache: DiskCache) -> None:
    """A checksum over what was wrong already when it was fetched is of no use: whoever decodes it says so."""
    store = MemoryStore("far")
    store.put(KEY, BODY)
    cached = Cached(store, cache, is_segment_key)
    cached.read(KEY, 0, 4)
    cached.read(KEY, 4, 4)
    ask(cache)
    cached.distrust(KEY)
    assert len(entries(cache.folder)) == 1


FILL = """
import sys
from lithify.store.disk_cache import DiskCache
cache = DiskCache(sys.argv[1], int(sys.argv[2]))
body = bytes(range(256)) * 64
sys.stdout.write("begun\\n"); sys.stdout.flush()
start = int(sys.argv[3])
while True:
    cache.read(("s3://far/p", "key", start, len(body)), lambda _start, _length: body)
    start += 1
"""


@pytest.mark.slow
def test_processes_that_are_killed_while_they_write_do_no_harm(tmp_path: Path) -> None:
    bytes_max = 16 * BLOCKS
    for turn in range(6):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", FILL, str(tmp_path), str(bytes_max), str(1000 * turn + 500 * each)],
                stdout=subprocess.PIPE,
            )
            for each in range(2)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()
            cache = DiskCache(tmp_path, bytes_max)
            for start in range(100 + 20 * turn):
                assert ask(cache, start) == BODY
        finally:
            for process in processes:
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
    cache = DiskCache(tmp_path, bytes_max)
    for start in range(200):
        assert ask(cache, start) == BODY
    assert cache.counts().damaged == 0
    assert size(tmp_path) <= bytes_max, "what they left half written counts, and goes"


def test_threads_share_it(cache: DiskCache) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda number: ask(cache, number % 16), range(400))) == {BODY}
    counts = cache.counts()
    assert counts.hits + counts.misses == 400
    assert counts.failures == counts.damaged == 0


def test_while_another_process_makes_room_nothing_is_kept_and_nothing_waits(cache: DiskCache) -> None:
    import fcntl

    ask(cache)
    (used,) = cache.folder.rglob("used")
    with used.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert [ask(cache, 1), ask(cache, 0, never)] == [BODY, BODY]
    assert len(entries(cache.folder)) == 1
    assert [ask(cache, 1), ask(cache, 1, never)] == [BODY, BODY]


def test_after_a_fork_it_goes_on(cache: DiskCache) -> None:
    ask(cache)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_in_child, (str(cache.folder), cache.bytes_max)) == BODY


def _in_child(folder: str, bytes_max: int) -> bytes:
    return ask(DiskCache(folder, bytes_max), fetch=never)


def test_only_segments_of_other_homes_are_kept(tmp_path: Path) -> None:
    given: dict[str, Any] = {"cache": {"dir": str(tmp_path / "cache"), "bytes": str(CACHE_BYTES_MIN)}}
    homes = opened_homes("memory://cached", given, is_segment=is_segment_key)
    number = "users/0123456789abcdef/00000/manifest/00000000000000000001.manifest"
    for store in (homes.here, homes.store("memory://cached-cold")):
        for key in (KEY, number):
            store.put(key, BODY)
            for _ in range(2):
                assert store.read(key, 0, 9) == BODY[:9]
                assert store.get(key) is not None
    assert len(entries(tmp_path)) == 1
    assert homes.cache is not None
    assert homes.cache.counts() == DiskCacheCounts(1, 1, 9, 9)
    assert (homes.here.requests().reads, homes.store("memory://cached-cold").requests().reads) == (4, 3)
    derived = homes.derived(lambda store: Metered(store.once()))
    for _ in range(2):
        derived.store("memory://cached-cold").read(KEY, 0, 10)
    assert len(entries(tmp_path)) == 1, "what a job reads once is not kept"


def test_all_homes(tmp_path: Path) -> None:
    given = {"cache": {"dir": tmp_path / "cache", "bytes": CACHE_BYTES_MIN, "homes": "all"}}
    homes = opened_homes("memory://cached-all", given, is_segment=is_segment_key)
    homes.here.put(KEY, BODY)
    for _ in range(2):
        assert homes.here.read(KEY, 0, 9) == BODY[:9]
    assert homes.here.requests().reads == 1
    assert homes.store(HERE) is homes.here


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("/var/cache", "has a 'dir', 'bytes', and perhaps 'homes'"),
        ({"dir": "/x"}, "has a 'dir', 'bytes', and perhaps 'homes'"),
        ({"dir": "/x", "bytes": 1 << 30, "size": 1}, "has a 'dir', 'bytes', and perhaps 'homes'"),
        ({"dir": "", "bytes": 1 << 30}, "cache.dir is a folder"),
        ({"dir": 7, "bytes": 1 << 30}, "cache.dir is a folder"),
        ({"dir": "/x", "bytes": 1000}, "at least 67,108,864"),
        ({"dir": "/x", "bytes": True}, "at least 67,108,864"),
        ({"dir": "/x", "bytes": "1G"}, "at least 67,108,864"),
        ({"dir": "/x", "bytes": 1 << 30, "homes": "hot"}, "is cold .* or all"),
    ],
)
def test_wrong_options(given: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        opened_homes("memory://cached-wrong", {"cache": given}, is_segment=is_segment_key)
