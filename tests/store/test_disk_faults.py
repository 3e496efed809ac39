"""Every system call of every operation fails in turn, in each way: only errors of ours, nothing half visible, nothing
acknowledged that is not there, nothing left that nobody would ever remove."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lithify.store.errors import LithifyError, NotFound
from lithify.store.exclusive import REFUSED_FOR_CERTAIN
from lithify.store.file import FileStore
from lithify.store.port import Outcome
from tests.store.disks import ForgetfulDisk, ScriptedDisk

ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EINTR, errno.ESTALE]
ROOT = Path("/mnt/warehouse")
TEMPORARY = ROOT / ".lithify-tmp"
MOMENTS = ["in its place", "after it", "from then on"]
OLD, NEW = b"old " * 500, b"new " * 700


def create(store: FileStore) -> Outcome:
    return store.create("t/new", NEW)


def create_what_is_there(store: FileStore) -> Outcome:
    return store.create("t/old", NEW)


def create_in_a_new_folder(store: FileStore) -> Outcome:
    return store.create("t/a/b/new", NEW)


def create_to_free_space(store: FileStore) -> Outcome:
    return store.create("t/new", NEW, frees=True)


def put(store: FileStore) -> None:
    store.put("t/new", NEW)


def replace(store: FileStore) -> None:
    store.put("t/old", NEW)


def stream(store: FileStore) -> None:
    output = store.output("t/new")
    try:
        for part in (NEW[:100], NEW[100:]):
            output.write(part)
        output.close()
    finally:
        output.abort()


def stream_and_close_whatever_happens(store: FileStore) -> None:
    """Pyarrow closes its sink even after a write has failed."""
    output = store.output("t/large")
    try:
        output.write(NEW * 400)
        output.write(NEW)
    finally:
        output.close()


def give_up(store: FileStore) -> None:
    output = store.output("t/new")
    output.write(NEW)
    output.abort()


def get(store: FileStore) -> bytes:
    found = store.get("t/old")
    assert found is not None
    return found.body


def get_nothing(store: FileStore) -> bytes | None:
    found = store.get("t/new")
    return None if found is None else found.body


def read(store: FileStore) -> bytes:
    return store.read("t/old", 4, 8)


def head(store: FileStore) -> int | None:
    found = store.head("t/old")
    return None if found is None else found.size


def list_all(store: FileStore) -> list[str]:
    return [found.key for found in store.list("").objects]


def folders(store: FileStore) -> list[str]:
    return list(store.folders(""))


def delete(store: FileStore) -> dict[str, str]:
    """Answers with what could not be deleted."""
    return store.delete(["t/old", "u/other", "t/new"])


def now(store: FileStore) -> bool:
    return store.now() > 0


def clean(store: FileStore) -> int:
    return store.remove_stale_temporaries(bool, older_than_ms=-1)


OPERATIONS: list[Callable[[FileStore], Any]] = [
    *(create, create_what_is_there, create_in_a_new_folder, create_to_free_space, put, replace),
    *(stream, stream_and_close_whatever_happens, give_up),
    *(get, get_nothing, read, head, list_all, folders, delete, now, clean),
]
WHOLE = {"t/new": {NEW}, "t/a/b/new": {NEW}, "t/old": {OLD, NEW}, "t/large": {NEW * 400 + NEW}, "u/other": {OLD}}
READING = {get, get_nothing, read, head, list_all, folders, now}


def opened(*, used: bool) -> tuple[FileStore, ScriptedDisk]:
    """A store over a disk that does as told. `used`: it has written before, so its folders are known to be flushed."""
    model = ForgetfulDisk()
    seed = store_on(model)
    for key in ("t/old", "u/other"):
        seed.put(key, OLD)
    model.close(model.open(TEMPORARY / "0123456789abcdef.7", os.O_WRONLY | os.O_CREAT))
    disk = ScriptedDisk(model)
    store = store_on(disk)
    if used:
        store.put("t/old", OLD)
        store.put("u/other", OLD)
    return store, disk


def store_on(disk: Any) -> FileStore:
    return FileStore(ROOT, disk=disk, reserve_pieces=1)


def visible(disk: ScriptedDisk) -> dict[str, bytes]:
    store = store_on(disk.inner)
    return {found.key: store.read(found.key, 0, found.size) for found in store.list("").objects}


def check(operate: Callable[[FileStore], Any], store: FileStore, disk: ScriptedDisk, right: Any) -> None:
    before = visible(disk)
    try:
        answer = operate(store)
    except LithifyError as error:
        answer = error
    assert not isinstance(answer, NotFound), "it is there"
    assert disk.open_files == 0
    disk.heal()
    after = visible(disk)
    for key, body in after.items():
        assert body in WHOLE[key], f"half of {key} is visible"
    if operate in READING:
        assert isinstance(answer, LithifyError) or answer == right
        assert after == before
    match answer:
        case Outcome.CREATED:
            assert NEW in after.values()
        case Outcome.EXISTS:
            assert after["t/old"] == OLD
        case LithifyError() if operate in (create, create_in_a_new_folder, create_to_free_space):
            assert NEW not in after.values(), "raised, though it happened"
        case _:
            assert set(after) >= set(before) or operate is delete
    if not isinstance(answer, LithifyError | Outcome) and operate in (put, replace, stream):
        assert NEW in after.values()
    if not isinstance(answer, LithifyError) and operate is delete:
        assert set(after) <= set(answer), "what is not refused is gone"
    assert len(disk.inner.scan(TEMPORARY)) <= 3, "the reserve, what was stale, and at most one more"
    store.remove_stale_temporaries(bool, older_than_ms=-60_000)
    assert [entry for entry in disk.inner.scan(TEMPORARY) if entry.is_file] == []
    again = operate(store)  # a store that met a fault goes on
    assert again == right or (right is Outcome.CREATED and again is Outcome.EXISTS)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("used", [True, False], ids=["used", "just opened"])
@pytest.mark.parametrize("operate", OPERATIONS, ids=lambda operate: operate.__name__)
def test_at_every_call(operate: Callable[[FileStore], Any], used: bool, moment: str) -> None:
    store, disk = opened(used=used)
    first = len(disk.calls)
    right = operate(store)
    calls = disk.calls[first:]
    assert calls
    assert disk.open_files == 0
    if operate is clean:
        right = 0  # afterwards
    for at in range(len(calls)):
        for number in ERRORS:
            if moment == "after it" and calls[at] == "link" and number in REFUSED_FOR_CERTAIN:
                continue  # link(2) answers these only where it did nothing
            store, disk = opened(used=used)
            disk.fail(at, number, after=moment == "after it", lasting=moment == "from then on")
            try:
                check(operate, store, disk, right)
            except AssertionError as error:
                raise AssertionError(f"call {at}, {calls[at]}, answered {os.strerror(number)}: {error}") from error
