"""Local files: simultaneous creates from processes, death between any two steps, and what the system may answer."""

import errno
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lithify.store import exclusive, file
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.file import FileStore
from lithify.store.port import Outcome

# From 3.12 on Python warns of forks beside threads (pytest-xdist's); the children here use none.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def fork(child: Callable[[], int]) -> int:
    """The process id of a child that runs `child` and exits with what it returns."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = child()
        finally:
            os._exit(code)
    return pid


def exit_codes(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "warehouse")


@pytest.fixture
def temporaries(tmp_path: Path) -> Callable[[], list[Path]]:
    folder = tmp_path / "warehouse" / ".lithify-tmp"
    return lambda: [path for path in folder.glob("*") if path.name != "clock"]


def test_of_simultaneous_processes_one_creates_each_key(store: FileStore) -> None:
    keys, writers = [f"race/{number}" for number in range(40)], 6
    gate_read, gate_write = os.pipe()

    def child(writer: int) -> int:
        os.close(gate_write)
        os.read(gate_read, 1)  # returns for all of them at once, when the gate is closed
        own = FileStore(store.url.removeprefix("file://"))
        return sum(own.create(key, b"%d" % writer * 5000) is Outcome.CREATED for key in keys)

    pids = [fork(lambda writer=writer: child(writer)) for writer in range(writers)]
    os.close(gate_read)
    os.close(gate_write)
    assert sum(exit_codes(pids)) == len(keys)
    for key in keys:
        found = store.get(key)
        assert found is not None
        assert len(found.body) == 5000
        assert len(set(found.body)) == 1


# What create does, in order, and whether the object has its name by then.
STEPS = [
    ("os.fsync", "before", False),
    ("os.fsync", "after", False),
    ("os.link", "before", False),
    ("os.link", "after", True),
    ("os.unlink", "before", True),
    ("os.unlink", "after", True),
    ("file.sync_folder", "before", True),
    ("file.sync_folder", "after", True),
]


@pytest.mark.parametrize(("step", "moment", "named"), STEPS)
def test_a_process_killed_at_any_step_leaves_all_or_nothing(
    step: str, moment: str, named: bool, store: FileStore, temporaries: Callable[[], list[Path]]
) -> None:
    store.put("t/seed", b"")  # the folders exist: the steps are those of the object

    def child() -> int:
        module, _, name = step.partition(".")
        owner = {"os": os, "file": file}[module]
        real = getattr(owner, name)

        def die(*arguments: Any) -> None:
            if moment == "after":
                real(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(owner, name, die)
        store.create("t/1.x", b"whole" * 1000)
        return 0

    assert exit_codes([fork(child)]) == [-signal.SIGKILL]
    found = store.get("t/1.x")
    assert (found is not None) == named
    assert found is None or found.body == b"whole" * 1000
    assert [key.key for key in store.list("").objects] == (["t/1.x", "t/seed"] if named else ["t/seed"])
    assert store.create("t/1.x", b"whole" * 1000) is (Outcome.EXISTS if named else Outcome.CREATED)


def test_stale_temporaries_are_removed_and_fresh_ones_stay(
    store: FileStore, temporaries: Callable[[], list[Path]]
) -> None:
    outputs = [store.output(f"o/{number}") for number in range(3)]
    for path in temporaries()[:2]:
        os.utime(path, (1, 1))
    assert store.remove_stale_temporaries() == 2
    assert len(temporaries()) == 1
    assert store.remove_stale_temporaries() == 0
    for output in outputs:
        output.abort()
    assert FileStore("/nowhere/at/all").remove_stale_temporaries() == 0


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["unlink", "sync"])
def test_a_failure_after_the_name_was_given_is_unknown(
    step: str, number: int, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("t/seed", b"")
    with monkeypatch.context() as patch:
        if step == "unlink":
            patch.setattr(Path, "unlink", failing(number))
        else:
            patch.setattr(file, "sync_folder", failing(number))
        assert store.create("t/1.x", b"body") is Outcome.UNKNOWN
    assert store.create("t/1.x", b"body") is Outcome.EXISTS


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, Unavailable), (errno.EACCES, InvalidRequest), (errno.EROFS, InvalidRequest)],
)
def test_a_failure_before_it_raises_and_leaves_nothing(
    number: int, error: type[Exception], store: FileStore, monkeypatch: pytest.MonkeyPatch, temporaries: Any
) -> None:
    for owner, name in ((os, "fsync"), (os, "link")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing(number))
            with pytest.raises(error, match=r"t/1\.x"):
                store.create("t/1.x", b"body")
        assert store.get("t/1.x") is None
        assert temporaries() == []
    assert store.create("t/1.x", b"body") is Outcome.CREATED


@pytest.mark.parametrize("happened", [False, True])
def test_a_link_that_fails_without_a_verdict_is_unknown(
    happened: bool, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def lost(source: Path, target: Path) -> None:
        if happened:
            link(source, target)
        raise OSError(errno.EIO, "file server")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lost)
        assert store.create("k", b"body") is Outcome.UNKNOWN
    assert store.create("k", b"body") is (Outcome.EXISTS if happened else Outcome.CREATED)


def test_a_link_repeated_by_the_file_server_is_our_own(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert store.create("k", b"body") is Outcome.CREATED
    assert store.create("k", b"body") is Outcome.EXISTS


def test_without_hard_links_the_rename_that_never_replaces_decides(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, temporaries: Any
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    assert store.create("k", b"first") is Outcome.CREATED
    assert store.create("k", b"second") is Outcome.EXISTS
    assert store.read("k", 0, 5) == b"first"
    assert temporaries() == []


def test_a_filesystem_with_neither_is_refused(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.ENOTSUP))
    monkeypatch.setattr(exclusive.ctypes, "CDLL", lambda *_, **__: object())
    with pytest.raises(InvalidRequest, match="neither hard links nor renameat2"):
        store.create("k", b"x")
    assert store.get("k") is None


def test_a_full_disk_during_an_output_leaves_nothing(store: FileStore, temporaries: Any) -> None:
    def child() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        output = store.output("big")
        try:
            for _ in range(100):
                output.write(bytes(10_000))
            output.close()
        except Unavailable:
            output.abort()
            return 7
        return 0

    assert exit_codes([fork(child)]) == [7]
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
        with pytest.raises(InvalidRequest, match=r"warehouse/k: .*give this user read and write access"):
            FileStore(tmp_path / "warehouse").create("k", b"x")
        return 7

    assert exit_codes([fork(child)]) == [7]


def test_objects_are_readable_by_those_the_umask_allows(store: FileStore) -> None:
    """A temporary file made private for safety would hide the log from other users' readers."""
    mask = os.umask(0)
    os.umask(mask)
    store.create("k", b"x")
    path = store.local_path("k")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_now_is_the_filesystems_clock_and_asks_it_once_a_second(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monotonic = [1_000_000]
    monkeypatch.setattr(file, "monotonic_ms", lambda: monotonic[0])
    touched: list[Path] = []
    touch = Path.touch

    def count(path: Path, *arguments: Any, **named: Any) -> None:
        touched.append(path)
        touch(path, *arguments, **named)

    monkeypatch.setattr(Path, "touch", count)
    first = store.now()
    monotonic[0] += 999
    assert store.now() == first + 999
    assert len(touched) == 1
    monotonic[0] += 1
    store.now()
    assert len(touched) == 2
