"""Copy a segment from one home to another (docs/rfcs/0031). What is under the new key at the end is whole and right, or
nothing is.

Within one S3 the store makes the copy; between stores the bytes are streamed, and checked on the way. What was sent to
a filesystem of fsspec is read back, since nobody knows what its library and its server check.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import xxhash

from lithify.store.cold import Cold
from lithify.store.errors import (
    RESTORE,
    AccessDenied,
    Corrupt,
    InvalidRequest,
    LithifyError,
    NotFound,
    Unavailable,
)
from lithify.store.fetching import begun, soon
from lithify.store.fsspec_store import FsspecStore
from lithify.store.homes import Homes
from lithify.store.metered import Metered
from lithify.store.port import Store
from lithify.store.s3 import S3Store
from lithify.store.urls import shown
from lithify.store.wrapped import innermost, layers

__all__ = ["copy"]

_PIECE_BYTES = 8 << 20
_AHEAD = 2  # pieces that are under way beside the one that is written: with the output's, some 64 MiB


def copy(homes: Homes, source: tuple[str, str], target: tuple[str, str], *, size: int, checksum: str) -> bool:
    """Copy the object `source` to `target`, both (home, key). `size` and `checksum` (XXH3-64, in hexadecimal) are those
    that the object was written with. Returns whether the store itself made the copy.

    Raises NotFound if there is no source, Corrupt if its bytes differ, Unavailable (or AccessDenied, InvalidRequest),
    which names the home, if a store does not answer, refuses, or is full. Then nothing is left under the new key, or,
    if the target's store is away, only what a sweep deletes. Requires: nobody else writes the new key.
    """
    return _Copy((homes.store(source[0]).once(), source[1]), (homes.store(target[0]), target[1]), size, checksum).make()


class _Copy:
    def __init__(self, source: tuple[Store, str], target: tuple[Store, str], size: int, checksum: str) -> None:
        self._source, self._key = source
        self._target, self._new_key = target
        self._size = size
        self._checksum = checksum

    def make(self) -> bool:
        by_the_store = self._by_the_store()
        if not by_the_store:
            self._streamed()
            if isinstance(innermost(self._target), FsspecStore):
                self._read_back()  # S3 checks each part that it is sent, and a local file is synced
        found = self._target.head(self._new_key)
        if found is None or found.size != self._size:
            self._discard()
            there = "none" if found is None else str(found.size)
            raise Unavailable(
                f"{self._new_name}: the store has {there} of the {self._size} bytes that were copied; nothing is lost, "
                "try again"
            )
        return by_the_store

    def _by_the_store(self) -> bool:
        """Whether the store made the copy. If it refuses to, the bytes are streamed: whatever hinders that, too, will
        say so then."""
        source, target = innermost(self._source), innermost(self._target)
        if not (isinstance(source, S3Store) and isinstance(target, S3Store) and target.copies_from(source)):
            return False
        with _named(self._target, self._source):
            try:
                requests = target.copy_from(source, self._key, self._new_key, self._size)
            except (AccessDenied, InvalidRequest):
                return False
            for layer in _metered(self._target):
                layer.count_copy(requests)
            for layer in _metered(self._source):
                layer.count_copied(self._size)
            told, told_of_copy = source.told_checksums(self._key), target.told_checksums(self._new_key)
        if not told.items() & told_of_copy.items():
            self._read_back()
        return True

    def _read_back(self) -> None:
        with suppress(NotFound):  # of the copy
            if self._hash(self._target, self._new_key) == self._checksum:
                return
        self._discard()
        if self._hash(self._source, self._key) != self._checksum:
            raise self._corrupt()
        raise Unavailable(f"{self._new_name}: the copy is damaged, and was deleted; nothing is lost, try again")

    def _hash(self, store: Store, key: str) -> str | None:
        """None: it is shorter than it should be."""
        digest = xxhash.xxh3_64()
        try:
            for piece in _pieces(store.once(), key, self._size):
                digest.update(piece)
        except Corrupt:
            return None
        return digest.hexdigest()

    def _streamed(self) -> None:
        digest = xxhash.xxh3_64()
        pieces = _pieces(self._source, self._key, self._size)
        first = next(pieces, b"")  # before anything is begun at the target
        output = self._target.output(self._new_key)
        try:
            while first:
                digest.update(first)
                output.write(first)
                first = next(pieces, b"")
            if digest.hexdigest() != self._checksum:
                raise self._corrupt()
            output.close()
        except BaseException:
            output.abort()
            raise

    def _discard(self) -> None:
        """Until it is swept, nobody refers to it."""
        with suppress(LithifyError):
            self._target.delete([self._new_key])

    def _corrupt(self) -> Corrupt:
        return Corrupt(
            f"{shown(self._source.url)}/{self._key}: its bytes are not those that were written. {RESTORE}",
            self._key,
        )

    @property
    def _new_name(self) -> str:
        return f"{shown(self._target.url)}/{self._new_key}"


def _metered(store: Store) -> Iterator[Metered]:
    return (layer for layer in layers(store) if isinstance(layer, Metered))


def _pieces(store: Store, key: str, size: int) -> Iterator[bytes]:
    """The first `size` bytes; of a far store the next pieces are under way."""

    def ask(start: int) -> Callable[[], bytes]:
        read = partial(store.read, key, start, min(_PIECE_BYTES, size - start))
        return soon(read, far=store.far, apart=store.apart)

    return (answer() for _, answer in begun(ask, range(0, size, _PIECE_BYTES), _AHEAD))


@contextmanager
def _named(*stores: Store) -> Generator[None]:
    """Errors name the first of these stores that is not the warehouse's."""
    cold = next((layer for store in stores for layer in layers(store) if isinstance(layer, Cold)), None)
    if cold is None:
        yield
        return
    with cold.named():
        yield
