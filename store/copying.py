"""Copy an object from one home to another, checked on its way."""

import xxhash

from lithify.store.errors import Corrupt, NotFound
from lithify.store.homes import Homes

__all__ = ["copy"]

_PIECE_BYTES = 16 << 20


def copy(homes: Homes, source: tuple[str, str], target: tuple[str, str], *, size: int, checksum: str) -> None:
    store, there = homes.store(source[0]), homes.store(target[0])
    digest, output = xxhash.xxh3_64(), there.output(target[1])
    try:
        for start in range(0, size, _PIECE_BYTES):
            piece = store.read(source[1], start, min(_PIECE_BYTES, size - start))
            digest.update(piece)
            output.write(piece)
        if digest.hexdigest() != checksum:
            raise Corrupt(f"{source[1]} does not have the bytes that were written", source[1])
    except BaseException:
        output.abort()
        raise
    output.close()
    found = there.head(target[1])
    if found is None or found.size != size:
        raise NotFound(f"{target[1]} is not there after it was copied")
