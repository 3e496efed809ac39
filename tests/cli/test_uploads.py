"""What operators are told of uploads apart from their commit (RFC 0019)."""

from pathlib import Path

import pytest

import lithify
from lithify.store.opening import open_store
from tests.cli.conftest import Lithify


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    return on_files


@pytest.fixture
def part(users: Lithify, folder: Path) -> lithify.Partition:
    return lithify.open(folder.as_uri()).topic("users").partition(0)


def test_uploads_that_stand_are_shown_counted_and_kept(users: Lithify, folder: Path, part: lithify.Partition) -> None:
    task, other = part.begin_upload(), part.begin_upload()
    store = open_store(folder.as_uri())
    ref = lithify.write_segment(store, task, [lithify.Record(b"k", b"v")])
    (check,) = users.json("verify", "--engine", "local")["partitions"]
    assert (check["unnamed"], check["uploading"]) == (1, 1)
    assert "1 of them belong to uploads that stand" in users.ok("verify", "--engine", "local")
    offsets = part.upload(task, [ref])
    text = users.ok("manifest", "show", "users")
    assert f"upload: {task.name}: offsets {offsets[0]} to {offsets[-1]}, by manifest " in text
    assert f"upload: {other.name}: expires " in text
    (described,) = users.json("topic", "describe", "users")["partitions"]
    assert described["uploads"] == 2
    (check,) = users.json("verify", "--engine", "local")["partitions"]
    assert (check["unnamed"], check["uploading"]) == (0, 0)


def test_doctor_warns_where_no_other_upload_can_begin(
    users: Lithify, part: lithify.Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lithify.admin.health.UPLOADS_MAX", 2)
    part.begin_upload()
    assert not [check for check in users.json("doctor")["checks"] if "uploads were not appended" in check["detail"]]
    part.begin_upload()
    (warned,) = [check for check in users.json("doctor")["checks"] if "uploads were not appended" in check["detail"]]
    assert (warned["name"], warned["verdict"]) == ("users/0", "warning")
    assert "the first expires in" in warned["detail"]
