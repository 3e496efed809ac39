"""Local files: simultaneous creates from processes, death between any two steps, and what the system may answer."""

import errno
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable
from lithify.store.file import FileStore
from lithify.store.port import Outcome
from tests.processes import exit_codes, forked
from tests.store.disks import ScriptedDisk

# From 3.12 on Python warns of forks beside threads (pytest-xdist's); the children here use none.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def disk() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.fixture
def store(tmp_path: Path, disk: ScriptedDisk) -> FileStore:
    return FileStore(tmp_path / "warehouse", disk=disk)  # type: ignore[arg-type]


@pytest.fixture
def temporaries(tmp_path: Path) -> Callable[[], list[Path]]:
    folder = tmp_path / "warehouse" / ".lithify-tmp"
    return lambda: [path for path in folder.glob("*") if path.name != "reserve"]


def test_only_a_write_makes_the_folder(store: FileStore, tmp_path: Path) -> None:
    assert store.get("a/1") is None
    assert store.list("a/").objects == ()
    before_ms = store.now()
    assert not (tmp_path / "warehouse").exists()
    store.create("a/1", b"1")
    assert abs(store.now() - before_ms) < 60_000


def test_of_simultaneous_processes_one_creates_each_key(store: FileStore) -> None:
    keys, writers = [f"race/{number}" for number in range(40)], 6
    gate_read, gate_write = os.pipe()

    def child(writer: int) -> int:
        os.close(gate_write)
        os.read(gate_read, 1)  # returns for all of them at once, when the gate is closed
        own = FileStore(store.url.removeprefix("file://"))
        return sum(own.create(key, b"%d" % writer * 5000) is Outcome.CREATED for key in keys)

    pids = [forked(lambda writer=writer: child(writer)) for writer in range(writers)]
    os.close(gate_read)
    os.close(gate_write)
    assert sum(exit_codes(pids)) == len(keys)
    for key in keys:
        found = store.get(key)
        assert found is not None
        assert len(found.body) == 5000
        assert len(set(found.body)) == 1


@pytest.mark.slow
def test_a_process_killed_at_any_call_leaves_all_or_nothing(store: FileStore, disk: ScriptedDisk) -> None:
    store.put("t/seed", b"")  # the folders exist: the calls are those of the object
    body = b"whole" * 1000
    before = len(disk.calls)
    store.create("t/dry", body)
    calls = disk.calls[before:]
    assert calls.count("link") == 1
    for at in range(len(calls)):
        key = f"t/{at}.x"

        def child(key: str = key, last: int = len(disk.calls) + at) -> int:
            def play(call: int, _: str, act: Callable[[], Any]) -> Any:
                answer = act()
                if call == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return answer

            disk.play = play
            store.create(key, body)
            return 0

        assert exit_codes([forked(child)]) == [-signal.SIGKILL]
        named = at >= calls.index("link")
        found = store.get(key)
        assert (found.body if found else None) == (body if named else None)
        assert (key in [listed.key for listed in store.list("").objects]) == named
        assert store.create(key, body) is (Outcome.EXISTS if named else Outcome.CREATED)


def test_stale_temporaries_are_removed_and_fresh_ones_stay(
    store: FileStore, temporaries: Callable[[], list[Path]]
) -> None:
    outputs = [store.output(f"o/{number}") for number in range(3)]
    for path in temporaries()[:2]:
        os.utime(path, (1, 1))
    assert store.remove_stale_temporaries(bool) == 2
    assert len(temporaries()) == 1
    assert store.remove_stale_temporaries(bool) == 0
    for output in outputs:
        output.abort()
    assert FileStore("/nowhere/at/all").remove_stale_temporaries(bool) == 0


def test_what_has_another_name_is_no_temporary(store: FileStore, tmp_path: Path) -> None:
    store.create("a", b"1")
    folder = tmp_path / "warehouse" / ".lithify-tmp"
    for name in ("thesis.tex", "0123456789abcdef", "0123456789abcdef.7~", "0123456789ABCDEF.7"):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (1, 1))
    assert store.remove_stale_temporaries(bool) == 0


@pytest.mark.parametrize("linked", ["the folder", "a file"])
def test_no_link_is_followed_to_a_temporary(store: FileStore, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = elsewhere / "0123456789abcdef.7"
    other.write_bytes(b"x")
    os.utime(other, (1, 1))
    folder = tmp_path / "warehouse" / ".lithify-tmp"
    if linked == "the folder":
        folder.parent.mkdir()
        folder.symlink_to(elsewhere)
    else:
        store.create("a", b"1")
        (folder / other.name).symlink_to(other)
    assert store.remove_stale_temporaries(bool) == 0
    assert other.exists()


def test_a_root_that_is_a_link_has_temporaries_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    store = FileStore(tmp_path / "link")
    output = store.output("a")
    (left,) = (path for path in (tmp_path / "disk" / ".lithify-tmp").iterdir() if path.is_file())
    os.utime(left, (1, 1))
    assert store.remove_stale_temporaries(bool) == 1
    output.abort()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_name_that_could_not_be_made_sure_is_unknown(number: int, store: FileStore, disk: ScriptedDisk) -> None:
    store.put("t/seed", b"")
    outcomes: list[Outcome] = []
    for working in (False, False, True):
        before = len(disk.calls)

        def play(_: int, name: str, act: Callable[[], Any], broken: int = 0 if working else before) -> Any:
            if broken and name == "sync" and "link" in disk.calls[broken:]:
                raise OSError(number, os.strerror(number))
            return act()

        disk.play = play
        outcomes.append(store.create("t/1.x", b"body"))
    assert outcomes == [Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.EXISTS]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_who_cannot_make_a_name_sure_does_not_build_on_it(number: int, store: FileStore, disk: ScriptedDisk) -> None:
    store.put("t/1.x", b"body")
    disk.fail_calls("sync", number)
    with pytest.raises(Unavailable, match=r"t/1\.x"):
        store.get("t/1.x")
    disk.fail_calls("sync", errno.EROFS)
    found = store.get("t/1.x")
    assert found is not None
    assert found.body == b"body", "who may only read gets what is visible"


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, Unavailable), (errno.EACCES, AccessDenied), (errno.EROFS, AccessDenied)],
)
@pytest.mark.parametrize("call", ["sync", "link"])
def test_a_failure_before_it_raises_and_leaves_nothing(
    call: str, number: int, error: type[Exception], store: FileStore, disk: ScriptedDisk, temporaries: Any
) -> None:
    store.put("t/seed", b"")
    disk.fail_calls(call, number)
    with pytest.raises(error, match=r"t/1\.x"):
        store.create("t/1.x", b"body")
    disk.heal()
    assert store.get("t/1.x") is None
    assert temporaries() == []
    assert store.create("t/1.x", b"body") is Outcome.CREATED


@pytest.mark.parametrize("happened", [False, True])
def test_a_link_that_fails_without_a_verdict_is_unknown(happened: bool, store: FileStore, disk: ScriptedDisk) -> None:
    def lost(_: int, name: str, act: Callable[[], Any]) -> Any:
        if name != "link":
            return act()
        if happened:
            act()
        raise OSError(errno.EIO, "file server")

    disk.play = lost
    assert store.create("k", b"body") is Outcome.UNKNOWN
    disk.heal()
    assert store.create("k", b"body") is (Outcome.EXISTS if happened else Outcome.CREATED)


def test_a_link_repeated_by_the_file_server_is_our_own(store: FileStore, disk: ScriptedDisk) -> None:
    def twice(_: int, name: str, act: Callable[[], Any]) -> Any:
        if name == "link":
            act()
        return act()

    disk.play = twice
    assert store.create("k", b"body") is Outcome.CREATED
    assert store.create("k", b"body") is Outcome.EXISTS


def test_without_hard_links_the_rename_that_never_replaces_decides(
    store: FileStore, disk: ScriptedDisk, temporaries: Any
) -> None:
    disk.fail_calls("link", errno.EPERM)
    assert store.create("k", b"first") is Outcome.CREATED
    assert store.create("k", b"second") is Outcome.EXISTS
    assert store.read("k", 0, 5) == b"first"
    assert temporaries() == []


def test_a_filesystem_with_neither_is_refused(store: FileStore, disk: ScriptedDisk) -> None:
    disk.fail_calls("link rename_exclusively", errno.ENOTSUP)
    with pytest.raises(InvalidRequest, match="neither hard links nor renameat2"):
        store.create("k", b"x")
    assert store.get("k") is None


def test_a_full_disk_during_an_output_leaves_nothing(store: FileStore, disk: ScriptedDisk, temporaries: Any) -> None:
    store.put("seed", b"")
    output = store.output("big")
    output.write(bytes(3_000_000))
    disk.fail_calls("write", errno.ENOSPC)
    with pytest.raises(Unavailable, match=r"big: No space left"):
        output.write(bytes(3_000_000))
    disk.heal()
    with pytest.raises(Unavailable, match=r"big: an earlier write failed"):
        output.write(b"more")
    with pytest.raises(Unavailable, match=r"big: an earlier write failed"):
        output.close()
    assert store.get("big") is None
    assert temporaries() == []


def test_lists_come_in_pages_of_a_thousand_in_key_order(store: FileStore) -> None:
    keys = [f"p/{number:04d}" for number in range(1200)] + ["p-/1", "p.x", "p/0500.x/1", "p0"]
    folder = store.local_path("p")
    assert folder is not None
    for key in keys:
        path = folder.parent / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    first = store.list("")
    second = store.list("", first.token)
    assert first.token == first.objects[-1].key
    assert len(first.objects) == 1000
    assert [found.key for found in (*first.objects, *second.objects)] == sorted(keys)
    assert second.token is None
    below = store.list("p/", "p/0500")
    assert below.objects[0].key == "p/0500.x/1"


def test_unfinished_files_are_no_objects(store: FileStore) -> None:
    output = store.output("o")
    output.write(b"half")
    assert store.list("").objects == ()
    assert list(store.folders("")) == []
    for ask in (store.get, store.head, store.local_path):
        with pytest.raises(InvalidRequest, match="unfinished"):
            ask(".lithify-tmp/x")
    output.abort()


def test_a_key_that_runs_through_an_object_is_refused(store: FileStore) -> None:
    store.put("a", b"object")
    with pytest.raises(InvalidRequest, match="part of it is a file"):
        store.create("a/b", b"x")
    with pytest.raises(InvalidRequest, match="255 bytes"):
        store.create("n" * 300, b"x")


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    def child() -> int:
        if os.getuid() == 0:  # root may do everything
            os.setuid(65534)
        with pytest.raises(AccessDenied, match=r"warehouse/k: .*give this user read and write access"):
            FileStore(tmp_path / "warehouse").create("k", b"x")
        return 7

    assert exit_codes([forked(child)]) == [7]


def test_objects_are_readable_by_those_the_umask_allows(store: FileStore) -> None:
    """A temporary file made private for safety would hide the log from other users' readers."""
    mask = os.umask(0)
    os.umask(mask)
    store.create("k", b"x")
    path = store.local_path("k")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_now_is_the_filesystems_clock_and_asks_it_once_a_second(store: FileStore, disk: ScriptedDisk) -> None:
    store.put("t/1", b"1")
    monotonic = [1_000_000]
    store._clock._monotonic = store._clock._machine = lambda: monotonic[0]
    first = store.now()
    monotonic[0] += 999
    touched = disk.calls.count("touch")
    assert store.now() == first + 999
    assert disk.calls.count("touch") == touched
    monotonic[0] += 1
    store.now()
    assert disk.calls.count("touch") == touched + 1


@pytest.mark.parametrize("target", [".", "..", "self", "other"])
def test_links_that_lead_back_end_no_list(target: str, store: FileStore, tmp_path: Path) -> None:
    """They would be walked forty times over, two of them 2^40 times, and then end the list."""
    store.put("t/x/0/a", b"1")
    folder = tmp_path / "warehouse" / "t" / "x" / "0"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "back").symlink_to(folder)
    for name in ("self", "twice"):
        (folder / name).symlink_to(outside if target == "other" else target)
    assert [found.key for found in store.list("t/").objects] == ["t/x/0/a"]
    assert store.folders("t/x/0/") == ([] if target == "self" else ["self", "twice"])


def test_a_link_to_a_folder_elsewhere_is_a_folder(store: FileStore, tmp_path: Path) -> None:
    """Whoever moved segments to a larger disk and left a link finds them still there."""
    store.put("t/x/0/segments/a", b"1")
    segments = tmp_path / "warehouse" / "t" / "x" / "0" / "segments"
    segments.rename(tmp_path / "elsewhere")
    segments.symlink_to(tmp_path / "elsewhere")
    (segments / "nowhere").symlink_to(tmp_path / "not there")
    assert [found.key for found in store.list("t/").objects] == ["t/x/0/segments/a"]
