"""Encodes and decodes numbered files. Input is checked here; the code behind relies on that. Pure.

A file ends with the checksum of its bytes. If it agrees, the file holds what a lithify wrote, whose invariants were
checked before (P2). A file without one was written before there were checksums, or repaired by hand: its invariants are
checked here.
"""

import re
from typing import Any, TypeVar

import msgspec
import xxhash
from msgspec.structs import replace

from lithify.manifest.invariants import shape_problems
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import WAREHOUSE_CONFIG, PartitionKeys
from lithify.manifest.model import FORMAT_MAX, Boundary, Collected, Manifest, Numbered, TopicFile, WarehouseFile
from lithify.manifest.runs import Runs
from lithify.store.errors import Corrupt, InvalidRequest

__all__ = ["LaterFormat", "boundary_seen", "check_belongs", "check_repaired", "decode", "encode"]

S = TypeVar("S", bound=Numbered)

_encoder = msgspec.json.Encoder()

# At a fixed place, the end, so it is never searched for among users' bytes. A string in JSON cannot look like it, since
# its quotes are escaped. Later formats either keep this seal at the same place or have no seal.
_SEAL = b',"file_xxh3":"%s"}\n'
_SEAL_BYTES = len(_SEAL) - 2 + 16
_SEALED = re.compile(rb',"file_xxh3":"([0-9a-f]{16})"}\n\Z')

_envelope = msgspec.json.Decoder(Numbered)
_collected = msgspec.json.Decoder(Collected)
# SUBTLE! All decoders are made here, under the import's lock. 1. Thread A makes a struct's first decoder; msgspec
# prepares its type. 2. Thread B uses the half-prepared type and reads a null pointer: the process dies. Test:
# tests/manifest/test_codec_threads.py
_decoders: dict[type[Numbered], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Manifest, CompactorState, Boundary, TopicFile, WarehouseFile)
}


class LaterFormat(InvalidRequest):
    """A later lithify wrote this file. Not `InvalidRequest` itself: that is also a store that refuses a request, which
    says nothing about what is there."""


def encode(value: Numbered) -> bytes:
    """JSON on one line, with a final newline for terminals. The checksum of everything before it comes last."""
    content = _encoder.encode(_as_stored(value) if isinstance(value, Manifest) else value)[:-1]
    return content + _SEAL % xxhash.xxh3_64_hexdigest(content).encode()


def _as_stored(manifest: Manifest) -> Manifest:
    """Without the runs that its lists list. (One that was only decoded has none of these: its runs are no `Runs`.)"""
    if not manifest.runs:
        return replace(manifest, runs=())  # what is left out of JSON is this very tuple
    if not (manifest.lists and isinstance(manifest.runs, Runs)):
        return manifest
    return replace(manifest, runs=manifest.runs.after(sum(each.segments for each in manifest.lists)))


def boundary_seen(body: bytes) -> int:
    """What it names, as it is stored; 0 if it cannot be read, or names none. Only a hint."""
    try:
        return max(_collected.decode(body).boundary_seen, 0)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def decode(kind: type[S], body: bytes, key: str, number: int) -> S:
    """The `kind` stored under `key`, which is file `number` of its chain. A manifest without the runs that are in its
    lists (lithify.manifest.run_lists).

    Raises LaterFormat if a newer lithify wrote it, Corrupt if it is damaged or is not what its name says.
    """
    # SUBTLE! Check the seal before anything else, even format and kind: a quarter of all single flipped bits leave JSON
    # of the right types. If a bit flips in a field's name, the field reads as its default: a manifest would have no L0
    # segments, and a sweep would take them for orphans. Test: tests/manifest/test_codec.py
    seal = _SEALED.search(body[-_SEAL_BYTES:])
    if seal is not None and xxhash.xxh3_64_hexdigest(body[:-_SEAL_BYTES]).encode() != seal[1]:
        raise _damaged(key, "it fails its own checksum")
    envelope = _decoded(_envelope, body, key)
    if envelope.format > FORMAT_MAX:
        raise LaterFormat(
            f"{key} has format {envelope.format}, and this lithify reads up to format {FORMAT_MAX}: upgrade lithify"
        )
    value = _decoded(_decoders[kind], body, key)
    if value.id != number:
        raise Corrupt(
            f"{key} contains number {value.id}, which is not its own; nothing was changed. Restore the object", key
        )
    if not getattr(value, "lists", ()):  # else once it is whole
        check_repaired(value, body, key)
    return value


def check_repaired(value: Numbered, body: bytes, key: str) -> None:
    """Raises Corrupt if `body` has no checksum, and what it says, `value`, breaks an invariant. A manifest must be
    whole."""
    broken = None if _SEALED.search(body[-_SEAL_BYTES:]) else next(shape_problems(value), None)
    if broken is not None:
        raise _damaged(key, f"it has no checksum, and breaks an invariant: {broken}")


def _decoded(decoder: msgspec.json.Decoder[S], body: bytes, key: str) -> S:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        # msgspec's errors name types, field names and byte positions, and of stored values only enumeration values.
        raise _damaged(key, str(error)) from None
    except UnicodeDecodeError as error:
        raise _damaged(key, f"a text in it is not UTF-8 ({error.reason})") from None
    except RecursionError:
        raise _damaged(key, "it is nested too deeply") from None


def _damaged(key: str, how: str) -> Corrupt:
    return Corrupt(f"{key} is damaged ({how}); nothing was changed. Restore the object", key)


def check_belongs(value: Numbered, key: str) -> None:
    """Raises Corrupt if `value` is another partition's or topic's file, copied to `key`."""
    under = ""
    if isinstance(value, Manifest | Boundary | CompactorState):
        under = PartitionKeys(value.topic, value.topic_id, value.partition).root
    elif isinstance(value, TopicFile):
        under = f"{value.topic}/"
    elif isinstance(value, WarehouseFile):
        under = WAREHOUSE_CONFIG.prefix
    if not key.startswith(under):
        raise Corrupt(
            f"{key} is a copy of a file that belongs under {under}; nothing was changed. Restore the original object",
            key,
        )
