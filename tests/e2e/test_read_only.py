"""A folder that may only be read: everything that only reads works there, and what writes says what is missing.

Mounted read-only where one can mount; made read-only for another user; and by the system calls' own answers.
"""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lithify
from lithify.store import opening as stores
from lithify.store.disk import Disk
from lithify.store.driver import machine_ms
from lithify.store.errors import AccessDenied
from lithify.store.file import FileStore
from tests.cli.conftest import Lithify

NOBODY = 65534


class ReadOnlyDisk(Disk):
    """The real disk, all of whose files may only be read."""

    def __init__(self, number: int) -> None:
        self._number = number

    def open(self, path: Path, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_CREAT):
            self._refuse()
        return super().open(path, flags)

    def _refuse(self, *_: object) -> None:
        raise OSError(self._number, os.strerror(self._number))

    make_folder = touch = link = rename = rename_exclusively = unlink = _refuse  # type: ignore[assignment]


def fill(folder: Path) -> None:
    with lithify.open(str(folder)) as warehouse:
        topic = warehouse.create_topic("users", 2, {"cleanup.policy": "compact,delete", "retention.ms": 1_000_000})
        now = warehouse.driver.now_ms()
        topic.append([lithify.Record(key=b"old", value=b"expired", timestamp_ms=now - 2_000_000)])
        for number in range(6):
            topic.append([lithify.Record(key=b"k%d" % key, value=b"%d" % number) for key in range(4)])
        compactor = lithify.Compactor(warehouse, engine="local")
        compactor.run_once()
        compactor.close()
        topic.append([lithify.Record(key=b"k0", value=b"last")])


@pytest.fixture(params=["mounted", errno.EROFS, errno.EACCES], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "warehouse"
    fill(folder)
    if request.param == "mounted":
        mount = [["mount", "--bind", str(folder), str(folder)], ["mount", "-o", "remount,bind,ro", str(folder)]]
        if os.getuid() == 0 and all(subprocess.run(c, check=False, capture_output=True).returncode == 0 for c in mount):
            yield folder
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
            return
    number = request.param if isinstance(request.param, int) else errno.EROFS
    monkeypatch.setattr(stores, "FileStore", lambda root: FileStore(root, disk=ReadOnlyDisk(number)))
    yield folder


def look(folder: Path) -> None:
    """Everything that only reads."""
    with lithify.open(str(folder)) as warehouse:
        topic = warehouse.topic("users")
        scanned = dict(zip(*topic.scan().read_all().select(["key", "value"]).to_pydict().values(), strict=True))
        assert scanned == {b"k0": b"last", b"k1": b"5", b"k2": b"5", b"k3": b"5"}
        assert {r.key for p in range(2) for r in topic.partition(p).read()} == set(scanned)
        found = topic.get(b"k0")
        assert found is not None
        assert found.value == b"last"
        assert [info.partition for info in topic.describe().partitions] == [0, 1]
        assert topic.partition(0).snapshot().scan().read_all().num_rows
        assert lithify.Admin(warehouse).explain("users", 0) is not None
        assert abs(warehouse.driver.now_ms() - machine_ms()) < 60_000


LOOKS = [
    ("topic", "list"),
    ("topic", "describe", "users"),
    ("scan", "users"),
    ("read", "users"),
    ("get", "users", "k0"),
    ("compaction", "explain", "users"),
    ("compaction", "list", "users"),
    ("checkpoint", "list", "users"),
    ("consumer", "list", "users"),
    ("manifest", "show", "users"),
    ("gc", "run", "--dry-run", "--sweep"),
    ("verify", "users", "--engine", "local"),
]


@pytest.mark.slow
def test_reading_works(folder: Path) -> None:
    look(folder)
    for words in LOOKS:
        Lithify(folder.as_uri()).ok(*words)


def test_writing_says_what_is_missing(folder: Path) -> None:
    with lithify.open(str(folder)) as warehouse:
        topic = warehouse.topic("users")
        writes: list[Callable[[], object]] = [
            lambda: topic.append([lithify.Record(key=b"k", value=b"v")]),
            lambda: topic.partition(0).delete_records(-1),
            lambda: topic.alter({"retention.ms": 5}),
            lambda: warehouse.create_topic("others"),
        ]
        for write in writes:
            with pytest.raises(AccessDenied, match="give this user read and write access"):
                write()
        done = lithify.Collector(warehouse, grace_ms=0).run_once()
        errors = {each.fault and each.fault.kind for each in done.partitions}
        assert errors <= {None, "AccessDenied"}
        look(folder)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where other users come in, too: pytest's own folders are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "warehouse"
        yield folder
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)


@pytest.mark.slow
def test_another_users_folder(open_folder: Path) -> None:
    fill(open_folder)
    for path in (open_folder, *open_folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Python's own files need not be readable for another user, so all that is imported late is imported before.
    program = "import os, pathlib, sys; from tests.e2e.test_read_only import NOBODY, look; "
    program += "folder = pathlib.Path(sys.argv[1]); look(folder); os.getuid() or os.setuid(NOBODY); look(folder); "
    program += "assert not os.access(folder, os.W_OK)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(open_folder)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
