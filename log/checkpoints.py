"""Checkpoints by owner and name: pin, find, refresh, delete (P20). Protocol coroutines."""

from datetime import timedelta

from lithify.log.names import check_name
from lithify.manifest.model import Checkpoint, Manifest, PinOwner
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import (
    CreateCheckpoint,
    DeleteCheckpoint,
    RefreshCheckpoint,
    expired,
    pin_missing_text,
    pin_text,
)
from lithify.store.errors import AlreadyExists, Corrupt, InvalidRequest, NotFound, SnapshotExpired, Unavailable
from lithify.store.port import NewId, Now

__all__ = [
    "TTL_MS_MAX",
    "check_checkpoint_name",
    "check_ttl",
    "delete",
    "find",
    "pin",
    "pinned",
    "refresh",
    "ttl_ms_of",
]

TTL_MS_MAX = 36_500 * 86_400_000  # a hundred years: longer is for ever, which is None
RACES_MAX = 8  # attempts lost to others who create and delete the same name


def check_checkpoint_name(name: object) -> str:
    return check_name("a checkpoint's name", name)


def check_ttl(whose: str, ttl_ms: object) -> int | None:
    """Raises InvalidRequest; `whose` it is begins the message."""
    if ttl_ms is not None and (type(ttl_ms) is not int or not 0 < ttl_ms <= TTL_MS_MAX):
        raise InvalidRequest(
            f"{whose} must be a positive number of milliseconds, at most {TTL_MS_MAX} (100 years); None: it never "
            "expires"
        )
    return ttl_ms


def ttl_ms_of(ttl: int | timedelta | None) -> int | None:
    """A caller's ttl in milliseconds. Raises InvalidRequest."""
    given = ttl // timedelta(milliseconds=1) if isinstance(ttl, timedelta) else ttl
    return check_ttl("a ttl (or timedelta)", given)


async def pin(
    files: PartitionFiles, name: str, ttl_ms: int | None, owner: PinOwner = "user"
) -> tuple[Manifest, Checkpoint]:
    """The manifest that `owner`'s checkpoint `name` pins. If there is no such checkpoint it is created, and pins the
    manifest that its commit makes. An existing one keeps its expiry, whatever `ttl_ms` says; an expired one is replaced
    in the same commit."""
    for _ in range(RACES_MAX):
        now_ms = await Now()
        known = _named(await files.live_head(), name, owner)
        if known is not None and not expired(known, now_ms):
            return await _pinned(files, known), known
        try:
            made = await files.manifest.commit(CreateCheckpoint(await NewId(), name, ttl_ms, known, owner))
        except AlreadyExists:
            continue  # another client pinned under this name meanwhile: use that checkpoint
        manifest = made.version.value
        if manifest is None or manifest.id != made.result.manifest:
            manifest = await _pinned(files, made.result)
        return manifest, made.result
    raise Unavailable(f"{files.name}: others keep creating and deleting checkpoint {name!r}; retry later")


async def _pinned(files: PartitionFiles, checkpoint: Checkpoint) -> Manifest:
    # A pinned manifest stays readable below the boundary (P17).
    version = await files.pinned(checkpoint.manifest)
    if version is not None and version.lacks and await _stands(files, checkpoint):
        key = files.keys.manifest.key(checkpoint.manifest)
        raise Corrupt(pin_missing_text(files.keys.topic, checkpoint, key, version.lacks), version.lacks)
    if version is None or version.value is None:
        raise SnapshotExpired(
            f"{files.name}: {pin_text(checkpoint)} was deleted, and manifest {checkpoint.manifest} with it; "
            "take a new snapshot"
        )
    return version.value


async def _stands(files: PartitionFiles, checkpoint: Checkpoint) -> bool:
    return any(each.id == checkpoint.id for each in (await files.live_head()).checkpoints)


async def pinned(files: PartitionFiles, name: str, owner: PinOwner = "user") -> tuple[Manifest, Checkpoint]:
    """The manifest that checkpoint `name` pins. Raises NotFound if there is no such checkpoint, or it expired."""
    known = await find(files, name, owner)
    return await _pinned(files, known), known


async def find(files: PartitionFiles, name: str, owner: PinOwner = "user") -> Checkpoint:
    """The checkpoint `name`. Raises NotFound if there is none, or it expired."""
    now_ms = await Now()
    known = _any(files, await files.live_head(), name, owner)
    if expired(known, now_ms):
        raise NotFound(f"{files.name}: checkpoint {name!r} has expired, and may be collected any time; take a new one")
    return known


def _any(files: PartitionFiles, head: Manifest, name: str, owner: PinOwner) -> Checkpoint:
    known = _named(head, name, owner)
    if known is None:
        raise NotFound(
            f"{files.name} has no checkpoint {name!r}; 'lithify checkpoint list {files.keys.topic}' shows what there is"
        )
    return known


def _named(head: Manifest, name: str, owner: PinOwner) -> Checkpoint | None:
    return next((known for known in head.checkpoints if (known.owner, known.name) == (owner, name)), None)


async def refresh(files: PartitionFiles, name: str, ttl_ms: int | None, owner: PinOwner = "user") -> Checkpoint:
    """Let checkpoint `name` expire `ttl_ms` from now (None: never). Raises NotFound if it is gone or expired."""
    known = await find(files, name, owner)
    return (await files.manifest.commit(RefreshCheckpoint(known.id, ttl_ms))).result


async def delete(files: PartitionFiles, name: str, owner: PinOwner = "user") -> None:
    """Delete checkpoint `name`. Raises NotFound."""
    known = _any(files, await files.live_head(), name, owner)
    await files.manifest.commit(DeleteCheckpoint(known.id))
