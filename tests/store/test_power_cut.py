"""Power cuts: whatever was acknowledged is there afterwards, whole; nothing half written has a name.

The disk is a model that keeps what POSIX promises and no more (tests/store/disks.py). The power goes between any two of
its calls, and once more after a fault or a killed process at any of them; the store that opens what is left is the real
one.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from lithify.store.disk import Disk
from lithify.store.errors import LithifyError
from lithify.store.file import FileStore
from lithify.store.port import Outcome
from tests.store.disks import ForgetfulDisk, ScriptedDisk

ROOT = Path("/mnt/data/warehouse")
BODIES = {f"t/id/manifest/{number}": b"%d " % number * 50 for number in range(1, 4)}
SEGMENT = "t/id/segments/1.x"
WHOLE = {**{key: {body} for key, body in BODIES.items()}, SEGMENT: {b"old" * 99, b"new" * 99}}


class Killed(BaseException):
    """The process is gone: nothing catches this, and nothing of it runs any more."""


class Client:
    """One process, and what it was told: `lasts` are the bodies that must be there from now on (None: nothing may)."""

    def __init__(self, disk: Any, lasts: dict[str, bytes | None], reserve_pieces: int = 0) -> None:
        self.store = FileStore(ROOT, disk=disk, reserve_pieces=reserve_pieces)
        self.lasts = lasts

    def commit(self, key: str) -> None:
        """As a commit does: the same bytes until the outcome is certain. EXISTS, too, says that the object is there."""
        for _ in range(3):
            if self.store.create(key, BODIES[key]) is not Outcome.UNKNOWN:
                self.lasts[key] = BODIES[key]
                break

    def read(self, key: str) -> None:
        found = self.store.get(key)
        if found is not None:
            self.lasts[key] = found.body

    def upload(self, body: bytes) -> None:
        self.lasts.pop(SEGMENT, None)  # while it is replaced, either may be there
        output = self.store.output(SEGMENT)
        output.write(body)
        output.close()
        self.lasts[SEGMENT] = body

    def put(self, body: bytes) -> None:
        self.lasts.pop(SEGMENT, None)
        self.store.put(SEGMENT, body)
        self.lasts[SEGMENT] = body

    def delete(self, key: str) -> None:
        self.lasts.pop(key, None)
        if not self.store.delete([key]):
            self.lasts[key] = None


def history(client: Client) -> Iterator[Callable[[], None]]:
    """What one process does, step by step."""
    yield lambda: client.commit("t/id/manifest/1")
    yield lambda: client.put(b"old" * 99)
    yield lambda: client.commit("t/id/manifest/2")
    yield lambda: client.read("t/id/manifest/1")
    yield lambda: client.upload(b"new" * 99)
    yield lambda: client.delete(SEGMENT)
    yield lambda: client.delete("t/id/manifest/1")
    yield lambda: client.commit("t/id/manifest/3")


def live(client: Client) -> None:
    """Each step until it is done: a failure is tried again."""
    for step in history(client):
        for _ in range(3):
            try:
                step()
            except LithifyError:
                continue
            break


def check(disk: ForgetfulDisk, lasts: dict[str, bytes | None], luck: random.Random, cuts_max: int = 24) -> int:
    """Every image holds what lasts, and nothing half; answers with how many there were."""
    images = 0
    for image in disk.images(luck, cuts_max):
        images += 1
        store = FileStore(ROOT, disk=image, reserve_pieces=0)
        for key, body in lasts.items():
            found = store.get(key)
            assert (found.body if found else None) == body, f"{key} after a power cut"
        for listed in store.list("").objects:
            found = store.get(listed.key)
            assert found is not None
            assert found.body in WHOLE[listed.key], f"half of {listed.key} after a power cut"
    again = Client(image, {})
    again.commit("t/id/manifest/3")
    assert again.lasts["t/id/manifest/3"] == BODIES["t/id/manifest/3"], "the warehouse goes on"
    return images


def calls_of_a_life() -> list[str]:
    disk = ScriptedDisk(ForgetfulDisk())
    live(Client(disk, {}))
    return disk.calls


CALLS = calls_of_a_life()
TWO_NAMES = ["link", "rename", "rename_exclusively"]
STEPS = ["exclusive", "exclusive", "read", "stat", "scan", "unlink", "make_folder", "touch", *TWO_NAMES]


def test_between_any_two_calls() -> None:
    model, lasts, luck, images = ForgetfulDisk(), dict[str, bytes | None](), random.Random(1), 0
    disk = ScriptedDisk(model)

    def play(_: int, name: str, act: Callable[[], Any]) -> Any:
        nonlocal images
        if name not in {"stat", "stat_open", "scan", "read", "close"}:
            images += check(model, lasts, luck)
        return act()

    disk.play = play
    live(Client(disk, lasts))
    images += check(model, lasts, luck)
    assert len(lasts) == 4
    assert images > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("after", [False, True], ids=["in its place", "after it"])
def test_after_a_fault_at_any_call(after: bool, number: int) -> None:
    """What failed is tried again, by the same process."""
    for at in range(len(CALLS)):
        model, lasts = ForgetfulDisk(), dict[str, bytes | None]()
        disk = ScriptedDisk(model)
        disk.fail(at, number, after=after)
        live(Client(disk, lasts))
        assert check(model, lasts, random.Random(at), cuts_max=4), f"call {at}: {CALLS[at]}"


@pytest.mark.slow
def test_after_a_process_died_at_any_call_and_another_went_on() -> None:
    for at in range(len(CALLS)):
        model, lasts = ForgetfulDisk(), dict[str, bytes | None]()
        disk = ScriptedDisk(model)

        def play(call: int, _: str, act: Callable[[], Any], at: int = at) -> Any:
            if call >= at:
                raise Killed
            return act()

        disk.play = play
        with pytest.raises(Killed):
            live(Client(disk, lasts))
        survivor = Client(model, lasts)
        for key in BODIES:
            survivor.read(key)
        assert check(model, lasts, random.Random(at), cuts_max=4)
        live(survivor)
        assert check(model, lasts, random.Random(at), cuts_max=4)


def exclusive(disk: Any, path: Path) -> int:
    descriptor = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        return disk.write(descriptor, memoryview(b"body"))
    finally:
        disk.close(descriptor)


def read(disk: Any, path: Path) -> bytes:
    descriptor = disk.open(path, os.O_RDONLY)
    try:
        return disk.read(descriptor, 5, 1)
    finally:
        disk.close(descriptor)


def kind(disk: Any, path: Path) -> Any:
    found = disk.stat(path)
    return "folder" if S_ISDIR(found.st_mode) else found.st_size


def answer(disk: Any, name: str, one: Path, two: Path) -> Any:
    """What the disk answers to this call of a store, in words that two disks can agree on."""
    own = {"exclusive": exclusive, "read": read, "stat": kind, "scan": lambda disk, path: sorted(disk.scan(path))}
    try:
        if name in own:
            return own[name](disk, one)
        return getattr(disk, name)(*((one, two) if name in TWO_NAMES else (one,)))
    except (FileNotFoundError, NotADirectoryError):
        return "not there"
    except OSError as error:
        return error.errno


@pytest.mark.parametrize("seed", range(20))
def test_the_model_answers_as_the_real_disk(seed: int, tmp_path: Path) -> None:
    luck, model, real = random.Random(seed), ForgetfulDisk(), Disk()
    for folder in reversed([tmp_path, *tmp_path.parents][:-1]):
        model.make_folder(folder)
    paths = [tmp_path / name for name in ("a", "b", "f", "f/a", "f/b", "a/x", "f/g/h")]
    for _ in range(60):
        name, one, two = luck.choice(STEPS), luck.choice(paths), luck.choice(paths)
        if name in TWO_NAMES and (one == two or one.is_dir() or two.is_dir()):
            continue  # the store never asks for it
        assert answer(model, name, one, two) == answer(real, name, one, two), f"{name} {one} {two}"
