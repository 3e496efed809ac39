"""What tells a file from another that was there under the same name."""

from pathlib import Path
from typing import Any

from lithify.store.file import FileStore
from lithify.store.port import Outcome
from tests.store.disks import ForgetfulDisk, Node

ROOT = Path("/w")
KEY = "t/1.x"


class WithoutCtime(ForgetfulDisk):
    def _told(self, node: Node) -> Any:
        told = super()._told(node)
        told.st_ctime_ns = told.st_mtime_ns
        return told


def created(disk: ForgetfulDisk) -> str:
    store = FileStore(ROOT, disk=disk)
    assert store.create(KEY, b"the same") is Outcome.CREATED
    found, head = store.get(KEY), store.head(KEY)
    assert found is not None
    assert head is not None
    assert found.tag == head.tag
    store.delete([KEY])
    return found.tag


def test_files_of_the_same_bytes_have_tags_of_their_own() -> None:
    disk = ForgetfulDisk()
    disk.make_folder(ROOT)
    tags = [created(disk) for _ in range(5)]
    assert all(tags)
    assert len(set(tags)) == len(tags)


def test_a_file_whose_ctime_tells_no_more_than_its_mtime_has_none() -> None:
    """So it is on filesystems without a ctime, and where writing and naming takes less than a tick of the clock."""
    disk = WithoutCtime()
    disk.make_folder(ROOT)
    assert created(disk) == ""
