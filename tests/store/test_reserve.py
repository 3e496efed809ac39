"""The reserve of a full disk: who may have it, who must wait, and when it is made again."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lithify.store.errors import Unavailable
from lithify.store.file import FileStore
from lithify.store.port import Outcome
from lithify.store.reserve import PIECE_BYTES, PIECES, Reserve
from tests.store.disks import ForgetfulDisk, ScriptedDisk

ROOT = Path("/mnt/warehouse")
RESERVE = ROOT / ".lithify-tmp" / "reserve"
KiB = 1024


class SmallDisk(ScriptedDisk):
    """A disk with room for so many bytes and files; each file takes 4 KiB and what it holds."""

    def __init__(self, room: int, files: int = 1_000_000, number: int = errno.ENOSPC) -> None:
        super().__init__(ForgetfulDisk())
        self.room, self.files = room, files
        self.play = self._bounded
        self._number = number

    def used(self) -> tuple[int, int]:
        found: list[Path] = [ROOT] if self.inner._find(ROOT) is not None else []
        sizes: dict[int, int] = {}
        while found:
            path = found.pop()
            for entry in self.inner.scan(path):
                if entry.is_folder:
                    found.append(path / entry.name)
                else:
                    told = self.inner.stat(path / entry.name)
                    sizes[told.st_ino] = 4 * KiB + told.st_size
        return sum(sizes.values()), len(sizes)

    def _bounded(self, _: int, name: str, act: Callable[[], Any]) -> Any:
        answer = act()
        if name in ("open", "write", "allocate"):
            used, files = self.used()
            if used > self.room or files > self.files:
                self._take_back(name, answer)
                raise OSError(self._number, os.strerror(self._number))
        return answer

    def _take_back(self, name: str, answer: Any) -> None:
        newest = max(self.inner._open)
        node = self.inner._open[newest]
        if name == "open":
            self.inner.close(newest)
            folder = self.inner._there(ROOT / ".lithify-tmp")
            for holder in (folder, folder.names.get("reserve")):
                for known, found in list(holder.names.items()) if holder else []:
                    if found is node:
                        holder.name(known, None)
        elif name == "write":
            node.data = node.data[:-answer]
        else:
            node.data = b""


def fill(store: FileStore) -> int:
    """Put until the disk is full; how many bytes went in."""
    stored = 0
    for size in (512 * KiB, 64 * KiB, 4 * KiB, 256):
        for number in range(1000):
            try:
                store.put(f"t/{size}/{number}", bytes(size))
            except Unavailable:
                break
            stored += size
    return stored


def opened(disk: Any) -> FileStore:
    return FileStore(ROOT, disk=disk)


def pieces(disk: ScriptedDisk) -> int:
    return len(disk.inner.scan(RESERVE))


def test_it_is_made_before_the_first_object() -> None:
    disk = SmallDisk(64 * 1024 * KiB)
    opened(disk).put("t/1", b"x")
    assert pieces(disk) == PIECES
    assert disk.used()[0] >= PIECES * PIECE_BYTES


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_frees_space_has_it_and_nobody_else(number: int) -> None:
    disk = SmallDisk(8 * 1024 * KiB, number=number)
    store = opened(disk)
    fill(store)
    assert pieces(disk) == PIECES, "what fills the disk does not touch it"
    with pytest.raises(Unavailable):
        store.create("t/1.x", b"append" * 200)
    assert store.create("t/1.x", b"boundary" * 200, frees=True) is Outcome.CREATED
    assert pieces(disk) == PIECES - 1
    # There are 256 KiB now. Nobody else gets any of them.
    for write in (lambda: store.put("t/2.x", b"x"), lambda: store.create("t/2.x", b"x"), lambda: store.output("t/2.x")):
        with pytest.raises(Unavailable, match="reserved for deletions are in use"):
            write()
    assert store.get("t/2.x") is None
    for more in range(100):
        assert store.create(f"t/{more}.y", b"boundary" * 200, frees=True) is Outcome.CREATED
    assert pieces(disk) >= PIECES - 5


def test_it_is_made_again_when_there_is_room() -> None:
    disk = SmallDisk(8 * 1024 * KiB)
    store = opened(disk)
    fill(store)
    store.create("t/1.x", b"boundary" * 200, frees=True)
    store.delete(["t/524288/0"])
    store.put("t/2.x", b"append")
    assert pieces(disk) == PIECES
    assert opened(disk).get("t/2.x") is not None


def test_an_upload_under_way_stops_when_it_is_touched() -> None:
    disk = SmallDisk(8 * 1024 * KiB)
    store = opened(disk)
    store.put("t/seed", b"x")
    upload = store.output("t/large")
    upload.write(bytes(100))
    fill(store)
    store.create("t/1.x", b"boundary" * 200, frees=True)
    with pytest.raises(Unavailable, match="reserved for deletions are in use"):
        upload.write(bytes(2 * 1024 * KiB))
    assert [entry.name for entry in disk.inner.scan(ROOT / ".lithify-tmp")] == ["reserve"]


def test_inodes_run_out_too() -> None:
    disk = SmallDisk(64 * 1024 * KiB, files=40)
    store = opened(disk)
    fill(store)
    with pytest.raises(Unavailable):
        store.put("t/x", b"")
    assert store.create("t/1.x", b"", frees=True) is Outcome.CREATED
    assert store.create("t/2.x", b"", frees=True) is Outcome.CREATED
    assert pieces(disk) == PIECES - 2


def test_used_up_it_says_so() -> None:
    disk = SmallDisk(8 * 1024 * KiB)
    store = opened(disk)
    fill(store)
    created = 0
    while pieces(disk):
        assert store.create(f"t/{created}.x", bytes(100 * KiB), frees=True) is Outcome.CREATED
        created += 1
    with pytest.raises(Unavailable, match=r"No space left.*docs/operations\.md"):
        store.create("t/large.x", bytes(300 * KiB), frees=True)
    assert created >= PIECES * PIECE_BYTES // (110 * KiB) - 1
    store.delete(["t/524288/0", *(f"t/{number}.x" for number in range(created))])
    store.put("t/again", b"x")
    assert pieces(disk) == PIECES


@pytest.mark.parametrize("given_up", [1, 2, 3])
def test_what_another_process_gives_up_meanwhile_is_made_by_the_next_write(given_up: int) -> None:
    """At any moment of the making: only that the last piece is there does not mean that all are."""
    disk = ScriptedDisk(ForgetfulDisk())
    opened(disk).put("t/0", b"x")
    calls = 0
    for at in range(1_000):
        disk = ScriptedDisk(ForgetfulDisk())
        other = Reserve(disk.inner, RESERVE, PIECES)

        def meanwhile(number: int, _: str, act: Callable[[], Any], at: int = at, other: Reserve = other) -> Any:
            if number == at:
                for _ in range(given_up):
                    other._give_up()
            return act()

        disk.play = meanwhile
        store = opened(disk)
        store.put("t/1", b"x")
        calls = len(disk.calls)
        store.put("t/2", b"x")
        assert pieces(disk) == PIECES, f"given up before call {at}"
        if calls <= at:
            break
    assert calls > 2 * PIECES


def test_a_filesystem_that_cannot_allocate_goes_without() -> None:
    disk = ScriptedDisk(ForgetfulDisk())
    disk.fail_calls("allocate", errno.EOPNOTSUPP)
    store = opened(disk)
    store.put("t/1", b"x")
    assert store.create("t/2", b"x") is Outcome.CREATED
    assert disk.calls.count("allocate") == 1
