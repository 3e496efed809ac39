"""Secrets and orders for workers of this machine: read by this user alone, and gone with their process.

Tried by hand, one line each, and caught here: files lie in a folder always, a dead one's folder is not removed, a
secret that a cleaner took is not written again, workers do not look whether their driver lives.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lithify.segment.execute import TaskCancelled
from lithify.store.credentials import read_credentials
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.opening import open_store
from lithify.work import private_files
from lithify.work.private_files import PrivateFiles
from lithify.work.stop_file import StopFile, working

SECRET = "s3cr3t-that-must-not-stay"
OPTIONS = {"key": "access", "secret": SECRET, "client_kwargs": {"region_name": "us-east-1"}}

DRIVER = """
import sys
from lithify.work import private_files
from lithify.work.stop_file import StopFile
from lithify.store.opening import open_store

if sys.argv[1] == "folder":
    private_files._in_memory = lambda name: None
files = private_files.PrivateFiles()
store = open_store("s3://bucket/x", {"key": "access", "secret": sys.argv[2]})
stop = StopFile(files.create("attempt"))
print(files.spec(store).credentials_file, stop.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def folders(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folders lie, on a system without files in memory."""
    monkeypatch.setattr(private_files, "_in_memory", lambda name: None)
    return temporary


@pytest.fixture
def drivers(temporary: Path) -> Iterator[Any]:
    """Starts drivers, each a process that has a secret; answers with it, and the paths of its two files."""
    started: list[subprocess.Popen[str]] = []

    def start(place: str) -> tuple[subprocess.Popen[str], str, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, place, SECRET],
            env=os.environ | {"TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        credentials, stop = process.stdout.readline().split()
        return process, credentials, stop

    yield start
    for process in started:
        process.kill()
        process.communicate()


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def on_disk(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


linux = pytest.mark.skipif(sys.platform != "linux", reason="files in memory are opened through /proc")


@pytest.mark.slow
@linux
def test_a_killed_driver_leaves_no_secret_since_none_was_ever_on_disk(temporary: Path, drivers: Any) -> None:
    driver, credentials, stop = drivers("memory")
    assert read_credentials(credentials)["secret"] == SECRET
    assert (mode(credentials), list(temporary.iterdir())) == (0o600, [])
    with working(stop) as stopped:
        assert not stopped()
        killed(driver)
        assert stopped(), "its workers stop, too"
    assert read_credentials(credentials) == {}
    with pytest.raises(TaskCancelled), working(stop):
        raise AssertionError("began for nobody")


@pytest.mark.slow
def test_what_a_killed_driver_left_in_a_folder_the_next_one_removes(folders: Path, drivers: Any) -> None:
    dead, left, _ = drivers("folder")
    _, kept, _ = drivers("folder")
    assert (mode(left), mode(Path(left).parent)) == (0o600, 0o700)
    killed(dead)
    assert len(on_disk(folders)) == 2
    files = PrivateFiles()
    files.create("attempt").close()
    assert on_disk(folders) == [Path(kept)], "the one that lives keeps its own"
    files.delete()
    files.delete()
    assert list(folders.iterdir()) == [Path(kept).parent]


def test_a_folder_that_a_cleaner_removed_is_made_again_with_what_was_in_it(folders: Path) -> None:
    files, store = PrivateFiles(), open_store("s3://bucket/x", OPTIONS)
    first = files.spec(store)
    assert files.spec(store) is first
    stop = StopFile(files.create("attempt"))
    with working(stop.path) as stopped:
        for folder in folders.iterdir():
            shutil.rmtree(folder)
        assert not stopped(), "a cleaner gives no orders"
        stop.order()
        assert stopped()
    again = files.spec(store)
    assert again.credentials_file is not None
    assert read_credentials(again.credentials_file)["secret"] == SECRET
    stop.close()
    files.create("next attempt").close()
    files.delete()
    assert on_disk(folders) == []


@pytest.mark.parametrize("place", [pytest.param("memory", marks=linux), "folder"])
def test_a_store_has_one_spec_and_it_ends_with_the_engine(
    place: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "folder":
        monkeypatch.setattr(private_files, "_in_memory", lambda name: None)
    files, store, plain = PrivateFiles(), open_store("s3://bucket/x", OPTIONS), open_store("/nowhere")
    path = files.spec(store).credentials_file
    assert path is not None
    assert files.spec(store) is files.spec(store)
    assert files.spec(plain) == plain.spec()
    files.delete()
    assert read_credentials(path) == {}
    with pytest.raises(InvalidRequest, match="closed"):
        files.create("late")
    assert list(temporary.iterdir()) == []


def test_no_room_for_a_file_is_no_raw_error(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PrivateFiles()
    files.create("attempt").close()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(private_files.os, "open", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        files.create("next attempt")
    monkeypatch.undo()
    files.delete()
