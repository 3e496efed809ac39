"""Manifests by number: whole, or as they are stored; and their run lists, each by itself."""

from collections.abc import Sequence

import msgspec

from lithify.admin.partitions import partition_at
from lithify.manifest.codec import decode
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest, RunList
from lithify.manifest.run_lists import check_listed
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import Get, Object, together

__all__ = ["ManifestFile", "NamedList", "in_parts", "manifest_file", "named_lists", "whole_manifest"]


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a `.manifest` file, which may be one that this lithify cannot read."""

    topic: str
    partition: int
    number: int
    key: str
    body: bytes


class NamedList(msgspec.Struct, frozen=True, kw_only=True):
    """A run list, as the manifest that names it says it must be."""

    key: str
    segments: int
    bytes: int
    checksum: str  # xxh3
    problem: str = ""  # "is missing …"; "": none is known


def whole_manifest(known: KnownPartitions, topic: str, partition: int, number: int | None) -> Manifest:
    """With all its runs. Raises Corrupt; InvalidRequest if a later lithify wrote it; NotFound if it is newer than the
    head, or was collected."""
    keys = partition_at(known, topic, partition).keys
    if number is None:
        return known.run(keys, lambda files: files.head())
    found = known.run(keys, lambda files: files.shown(number))
    key = keys.manifest.key(number)
    if found is None or found.value is None:
        raise _absent(key)
    return found.value


def manifest_file(known: KnownPartitions, topic: str, partition: int, number: int | None) -> ManifestFile:
    keys = partition_at(known, topic, partition).keys
    if number is None:
        number = known.run(keys, lambda files: files.bare_head()).id  # whatever became of its run lists
    key = keys.manifest.key(number)

    async def get() -> Object | None:
        return await Get(key)

    stored = known.driver.run(get())
    if stored is None:
        raise _absent(key)
    return ManifestFile(topic=topic, partition=partition, number=number, key=key, body=stored.body)


def named_lists(manifest: Manifest) -> tuple[NamedList, ...]:
    keys = PartitionKeys(manifest.topic, manifest.topic_id, manifest.partition)
    return tuple(
        NamedList(key=keys.run_list(each.id), segments=each.segments, bytes=each.bytes, checksum=each.checksum)
        for each in manifest.lists
    )


def in_parts(driver: Driver, file: ManifestFile) -> tuple[Manifest, tuple[NamedList, ...]]:
    """The manifest in `file`, without the runs that its lists list; and these lists, each of which was looked at.
    Raises Corrupt if the manifest itself cannot be read."""
    bare = decode(Manifest, file.body, file.key, file.number)
    named = named_lists(bare)

    async def get() -> Sequence[Object | None]:
        return await together([Get(each.key) for each in named])

    found = driver.run(get()) if named else ()
    return bare, tuple(
        msgspec.structs.replace(name, problem=_problem(each, stored, name.key))
        for each, stored, name in zip(bare.lists, found, named, strict=True)
    )


def _problem(each: RunList, stored: Object | None, key: str) -> str:
    if stored is None:
        return "is missing; restore the object"
    try:
        check_listed(each, stored.body, key)
    except Corrupt as error:
        return str(error).removeprefix(f"{key} ")
    return ""


def _absent(key: str) -> NotFound:
    return NotFound(f"{key} does not exist: it is newer than the head, or was garbage-collected", key)
