"""Manifests by number: whole, or as they are stored."""

import msgspec

from lithify.admin.partitions import partition_at
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.store.errors import NotFound
from lithify.store.port import Get, Object

__all__ = ["ManifestFile", "manifest_file", "whole_manifest"]


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a `.manifest` file, which may be one that this lithify cannot read."""

    topic: str
    partition: int
    number: int
    key: str
    body: bytes


def whole_manifest(known: KnownPartitions, topic: str, partition: int, number: int | None) -> Manifest:
    """With all its runs. Raises Corrupt; InvalidRequest if a later lithify wrote it; NotFound if it is newer than the
    head, or was collected."""
    keys = partition_at(known, topic, partition).keys
    if number is None:
        return known.run(keys, lambda files: files.head())
    found = known.run(keys, lambda files: files.manifest.read(number))
    key = keys.manifest.key(number)
    if found is None or found.value is None:
        raise _absent(key)
    return found.value


def manifest_file(known: KnownPartitions, topic: str, partition: int, number: int | None) -> ManifestFile:
    keys = partition_at(known, topic, partition).keys
    if number is None:
        number = known.run(keys, lambda files: files.head()).id
    key = keys.manifest.key(number)

    async def get() -> Object | None:
        return await Get(key)

    stored = known.driver.run(get())
    if stored is None:
        raise _absent(key)
    return ManifestFile(topic=topic, partition=partition, number=number, key=key, body=stored.body)


def _absent(key: str) -> NotFound:
    return NotFound(f"{key} does not exist: it is newer than the head, or was garbage-collected", key)
