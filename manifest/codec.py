"""Bytes of numbered files, both ways. What comes in is checked at this door; inside, nothing is defensive."""

from typing import Any, TypeVar

import msgspec

from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import WAREHOUSE_CONFIG, PartitionKeys
from lithify.manifest.model import FORMAT, Boundary, Manifest, Numbered, TopicFile, WarehouseFile
from lithify.store.errors import Corrupt, InvalidRequest

__all__ = ["check_home", "decode", "encode"]

S = TypeVar("S", bound=Numbered)

_encoder = msgspec.json.Encoder()


_envelope = msgspec.json.Decoder(Numbered)
# SUBTLE! Made here, under the import's lock, and not at the first use: msgspec prepares a struct's type when its first
# decoder is made, and a second thread that meets it half prepared reads a null pointer. Two partitions opened at once
# ended the process. Test: tests/manifest/test_codec_threads.py
_decoders: dict[type[Numbered], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Manifest, CompactorState, Boundary, TopicFile, WarehouseFile)
}


def encode(value: Numbered) -> bytes:
    """JSON on one line, with a final newline for the operator's terminal."""
    return _encoder.encode(value) + b"\n"


def decode(kind: type[S], body: bytes, key: str, number: int) -> S:
    """The `kind` stored under `key`, which is file `number` of its chain.

    Raises InvalidRequest where a newer lithify wrote it, Corrupt where it is damaged or is not what its name says.
    """
    try:
        envelope = _envelope.decode(body)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{key} is damaged ({_place(error)}); nothing was changed. Restore the object") from None
    if envelope.format > FORMAT:
        raise InvalidRequest(
            f"{key} has format {envelope.format} and this lithify reads up to {FORMAT}: upgrade lithify"
        )
    try:
        value = _decoders[kind].decode(body)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{key} is damaged ({_place(error)}); nothing was changed. Restore the object") from None
    if envelope.id != number:
        raise Corrupt(f"{key} says that it is number {envelope.id}; nothing was changed. Restore the object")
    assert isinstance(value, kind)
    return value


def check_home(value: Numbered, key: str) -> None:
    """Raises Corrupt where `value` is another partition's or topic's file, copied to `key`."""
    home = ""
    if isinstance(value, Manifest | Boundary | CompactorState):
        home = PartitionKeys(value.topic, value.topic_id, value.partition).root
    elif isinstance(value, TopicFile):
        home = f"{value.topic}/"
    elif isinstance(value, WarehouseFile):
        home = WAREHOUSE_CONFIG.prefix
    if not key.startswith(home):
        raise Corrupt(f"{key} belongs under {home}; nothing was changed. Restore the object")


def _place(error: msgspec.DecodeError) -> str:
    # msgspec names types, field names and byte positions; of stored values only those of enumerations.
    return str(error)
