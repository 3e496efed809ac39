"""Disks for tests: one that answers a real one's calls as it is told, and one that forgets with the power."""

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IFDIR, S_IFREG
from types import SimpleNamespace
from typing import Any

from lithify.store.disk import Disk, Entry

_FREE_MAX = 6  # names of one folder that may or may not last; older ones do
CALLS = tuple(name for name in vars(Disk) if not name.startswith("_"))


class ScriptedDisk:
    """Plays every call of `inner`, one after another, through `play(number, name, act)`; counts what is left open."""

    def __init__(self, inner: Any = None) -> None:
        self.inner = inner or Disk()
        self.calls: list[str] = []
        self.open_files = 0
        self.play: Callable[[int, str, Callable[[], Any]], Any] = lambda _, __, act: act()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        assert name in CALLS

        def call(*arguments: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if name == "close":
                self.open_files -= 1  # whatever it answers: Linux lets go of the descriptor
            try:
                answer = self.play(number, name, lambda: getattr(self.inner, name)(*arguments))
            except OSError:
                if name == "close":  # what was refused in its place must not stay open for real
                    self._close_anyway(*arguments)
                raise
            self.open_files += name == "open"
            return answer

        return call

    def _close_anyway(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            self.inner.close(descriptor)

    def fail(self, at: int, number: int, *, after: bool = False, lasting: bool = False) -> None:
        """The call `at` (counted from now) answers the error `number`: in place of what it would do, or `after` it;
        `lasting`: so does each call that follows, but close."""
        first = len(self.calls) + at

        def play(call: int, name: str, act: Callable[[], Any]) -> Any:
            if call != first and not (lasting and call > first and name != "close"):
                return act()
            if after:
                answer = act()
                if name == "open":  # nobody was told of it
                    self.inner.close(answer)
            raise OSError(number, os.strerror(number))

        self.play = play

    def fail_calls(self, names: str, number: int) -> None:
        """Every call of these names answers the error `number`."""
        refused = names.split()

        def play(call: int, name: str, act: Callable[[], Any]) -> Any:
            if name in refused:
                raise OSError(number, os.strerror(number))
            return act()

        self.play = play

    def heal(self) -> None:
        self.play = lambda _, __, act: act()


class Node:
    """A file or a folder: as processes see it, and as it is on the platters."""

    def __init__(self, *, is_folder: bool) -> None:
        self.is_folder = is_folder
        self.data = b""
        self.flushed = b""
        self.names: dict[str, Node] = {}
        self.flushed_names: dict[str, Node] = {}
        self.pending: list[tuple[str, Node | None]] = []  # names given and taken since the folder was flushed
        self.modified = 0
        self.changed = 0  # its ctime: when it was last given a name, or touched

    def name(self, name: str, node: "Node | None") -> None:
        if node is None:
            del self.names[name]
        else:
            self.names[name] = node
        self.pending.append((name, node))

    def flush(self) -> None:
        self.flushed, self.flushed_names, self.pending = self.data, dict(self.names), []


class ForgetfulDisk:
    """A filesystem in memory that promises what POSIX does, and not a bit more: bytes last once their file was synced,
    names once their folder was, in no order. `images` are what a power cut may leave."""

    def __init__(self, root: Node | None = None) -> None:
        self._root = root or Node(is_folder=True)
        self._open: dict[int, Node] = {}
        self._next = 100
        self._clock = 1_700_000_000_000_000_000

    def open(self, path: Path, flags: int) -> int:
        node = self._find(path)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT)
            node = Node(is_folder=False)
            self._name(path, node)
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST)
        elif flags & os.O_DIRECTORY and not node.is_folder:
            raise _error(errno.ENOTDIR)
        elif flags & os.O_WRONLY and node.is_folder:
            raise _error(errno.EISDIR)
        self._next += 1
        self._open[self._next] = node
        return self._next

    def close(self, descriptor: int) -> None:
        if self._open.pop(descriptor, None) is None:
            raise _error(errno.EBADF)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        if self._open[descriptor].is_folder:
            raise _error(errno.EISDIR)
        return self._open[descriptor].data[offset : offset + length]

    def write(self, descriptor: int, data: memoryview) -> int:
        self._open[descriptor].data += bytes(data)
        return len(data)

    def allocate(self, descriptor: int, length: int) -> None:
        node = self._open[descriptor]
        node.data = node.data.ljust(length, b"\0")

    def sync(self, descriptor: int) -> None:
        self._open[descriptor].flush()

    def stat(self, path: Path) -> Any:
        return self._told(self._there(path))

    def stat_open(self, descriptor: int) -> Any:
        return self._told(self._open[descriptor])

    def _told(self, node: Node) -> Any:
        kind = S_IFDIR if node.is_folder else S_IFREG
        return SimpleNamespace(
            st_mode=kind,
            st_size=len(node.data),
            st_mtime_ns=node.modified,
            st_ctime_ns=node.changed,
            st_ino=id(node),
            st_dev=1,
        )

    def scan(self, folder: Path) -> list[Entry]:
        node = self._there(folder)
        if not node.is_folder:
            raise _error(errno.ENOTDIR)
        return [Entry(name, found.is_folder, not found.is_folder) for name, found in node.names.items()]

    def resolve(self, path: Path) -> Path:
        return path  # there are no links

    def make_folder(self, folder: Path) -> None:
        if self._find(folder) is not None:
            raise _error(errno.EEXIST)
        self._name(folder, Node(is_folder=True))

    def set_mode(self, path: Path, mode: int) -> None:
        self._there(path)  # who may read what is none of its business

    def touch(self, path: Path) -> None:
        node = self._there(path)
        node.modified = node.changed = self._now()

    def link(self, source: Path, target: Path) -> None:
        node = self._there(source)
        if self._find(target) is not None:
            raise _error(errno.EEXIST)
        self._name(target, node)

    def rename(self, source: Path, target: Path) -> None:
        self._name(target, self._there(source))
        self._folder(source).name(source.name, None)

    def rename_exclusively(self, source: Path, target: Path) -> None:
        self.link(source, target)
        self._folder(source).name(source.name, None)

    def unlink(self, path: Path) -> None:
        if self._there(path).is_folder:
            raise _error(errno.EISDIR)
        self._folder(path).name(path.name, None)

    def images(self, luck: random.Random, cuts_max: int = 24) -> "Iterator[ForgetfulDisk]":
        """What may be on the platters if the power goes now.

        Any part of the names that were not flushed may last: all combinations where they are few; none, all, each
        alone, all but each, and some, where they are many; of one folder all but the newest last. And of the bytes
        that were not flushed none, half or all.
        """
        folders = self._folders()
        pending = [(f, i) for f in folders for i in range(len(f.pending))[-_FREE_MAX:]]
        old = {(id(f), i) for f in folders for i in range(len(f.pending))[:-_FREE_MAX]}
        torn = any(not n.is_folder and n.data != n.flushed for f in folders for n in f.names.values())
        everything = frozenset(range(len(pending)))
        if 2 ** len(pending) <= cuts_max:
            kept = [frozenset(i for i in everything if bits >> i & 1) for bits in range(2 ** len(pending))]
        else:
            kept = [frozenset[int](), everything, *(frozenset({i}) for i in everything)]
            kept += [everything - {i} for i in everything]
            kept += [frozenset(i for i in everything if luck.random() < 0.5) for _ in range(cuts_max)]
        for chosen in dict.fromkeys(kept):
            lasting = {(id(pending[i][0]), pending[i][1]) for i in chosen} | old
            for share in (0.0, 0.5, 1.0) if torn else (1.0,):
                yield ForgetfulDisk(_cut(self._root, lasting, share, {}))

    def _folders(self) -> list[Node]:
        found, rest = list[Node](), [self._root]
        while rest:
            node = rest.pop()
            found.append(node)
            known = [*node.names.values(), *node.flushed_names.values(), *(n for _, n in node.pending if n)]
            rest += [n for n in known if n.is_folder and n not in found and n not in rest]
        return found

    def _find(self, path: Path) -> Node | None:
        node = self._root
        for part in path.parts[1:]:
            if not node.is_folder:
                raise _error(errno.ENOTDIR)
            found = node.names.get(part)
            if found is None:
                return None
            node = found
        return node

    def _there(self, path: Path) -> Node:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT)
        return node

    def _folder(self, path: Path) -> Node:
        folder = self._there(path.parent)
        if not folder.is_folder:
            raise _error(errno.ENOTDIR)
        return folder

    def _name(self, path: Path, node: Node) -> None:
        folder = self._folder(path)
        folder.name(path.name, node)
        node.changed = self._now()
        node.modified = node.modified or node.changed

    def _now(self) -> int:
        self._clock += 1_000_000
        return self._clock


def _cut(node: Node, lasting: set[tuple[int, int]], share: float, known: dict[int, Node]) -> Node:
    """What is left of `node`: its flushed names and those of `lasting`; of bytes not flushed, `share`."""
    if id(node) in known:
        return known[id(node)]
    left = known[id(node)] = Node(is_folder=node.is_folder)
    left.modified, left.changed = node.modified, node.changed
    left.data = node.flushed + node.data[len(node.flushed) :][: int(share * (len(node.data) - len(node.flushed)))]
    names = dict(node.flushed_names)
    for index, (name, found) in enumerate(node.pending):
        if (id(node), index) in lasting:
            names.pop(name, None)
            if found is not None:
                names[name] = found
    left.names = {name: _cut(found, lasting, share, known) for name, found in names.items()}
    left.flush()
    return left


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
