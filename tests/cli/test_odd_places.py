"""Folders, files and names that are strange but plausible: one clear message each, or it works."""

import errno
import io
import os
import threading
from pathlib import Path

import pytest

from lithify.cli.records import bulk
from lithify.cli.records.explained import explained
from lithify.store.disk import Disk
from lithify.store.errors import InvalidRequest
from tests.cli.conftest import Lithify, changes


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", input=changes(9))
    return lithify


def test_a_folder_that_takes_no_others_is_told_once(
    on_files: Lithify, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc, which has folders enough, and whose numbers are not topics."""

    def refuse(_: Disk, folder: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))

    for name in ("1", "10", "sys"):
        (folder / name).mkdir(parents=True)
    monkeypatch.setattr(Disk, "make_folder", refuse)
    on_files.refused("topic", "create", "users", code=2, saying=f"no folder can be made in {folder}: use another place")
    on_files.refused("topic", "list", code=3, saying="That folder exists, but it is not a warehouse.")


def test_a_file_without_a_size_is_told_so() -> None:
    said = r"/proc/version: .*it is not a regular file: copy it, or pipe it"
    with pytest.raises(InvalidRequest, match=said), explained("/proc/version"):
        raise OSError(errno.EINVAL, "Invalid argument")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_waits_for_a_named_pipe_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.jsonl"
    os.mkfifo(path)
    told: list[str] = []
    monkeypatch.setattr(bulk, "warn", told.append)
    monkeypatch.setattr("sys.stderr", Terminal())
    writer = threading.Thread(target=lambda: path.write_text("{}"))
    writer.start()
    with bulk.open_source(str(path), {}) as source:
        assert source.file.read() == b"{}"
    writer.join()
    assert told == [f"waiting for a program that writes to {path}; Ctrl-C ends it"]


@pytest.mark.parametrize("name", ["a b", "a/b", "..", "ä 日本 🦉", "%2F", "'", "x" * 249])
def test_names_with_odd_characters_work(users: Lithify, name: str) -> None:
    made = users.json("checkpoint", "create", "users", name)
    assert [each["checkpoint"]["name"] for each in made] == [name] * 2
    assert len(users.ok("scan", "users", f"--checkpoint={name}").splitlines()) == 7
    users.ok("checkpoint", "delete", "users", name)
    assert len(users.ok("read", "users", f"--consumer={name}").splitlines()) == 9
    assert [each["consumer"]["name"] for each in users.json("consumer", "list", "users")] == [name] * 2
    users.ok("consumer", "reset", "users", name, "--to-latest")


@pytest.mark.parametrize("name", ["", "x" * 300, "a\tb", "a\x1b[31mb"])
def test_names_that_cannot_be_kept_are_refused(users: Lithify, name: str) -> None:
    said = "must be a string of 1 to 249 printable characters"
    users.refused("checkpoint", "create", "users", name, code=2, saying=said)
    users.refused("read", "users", f"--consumer={name}", code=2, saying=said)
    users.refused("topic", "create", name, code=2, saying="is not allowed: use 1 to 249 of the characters")
