"""Opening a manifest for a reader, and keeping it readable while somebody reads (docs/rfcs/0016, 0021). Protocol
coroutines."""

from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from lithify.log import checkpoints
from lithify.manifest.model import Checkpoint, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import RefreshCheckpoint, expired, pin_missing_text
from lithify.segment.read_task import Hold
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound, SnapshotExpired
from lithify.store.port import NewId, Now

__all__ = ["Renewal", "Renewals", "at", "hold_of", "opened", "renewed"]

Opened = tuple[Manifest, Checkpoint | None]

RENEWALS = 3  # in one ttl: a renewal that fails, or comes late, leaves time for two more
AROUND = 6  # in one ttl: how often a reader gets around to all the pins that its task carries
FAILED = 12  # of a ttl: the time until another attempt
LOOKS_MAX = 2


async def opened(files: PartitionFiles, pin: str | None, ttl_ms: int | None, number: int | None) -> Opened:
    """The manifest that `Partition.snapshot` reads, and what pins it."""
    if number is not None:
        if pin is not None:
            raise InvalidRequest(f"{files.name}: give either a pin or a manifest's number")
        if type(number) is not int or number < 1:
            raise InvalidRequest(f"{files.name}: a manifest's number is an integer above 0")
        return await at(files, number, ttl_ms)
    if pin is not None:
        return await checkpoints.pin(files, checkpoints.check_checkpoint_name(pin), ttl_ms)
    if ttl_ms is None:
        return await files.live_head(), None
    return await checkpoints.pin(files, f"scan-{await NewId()}", ttl_ms, "scan")


async def at(files: PartitionFiles, number: int, ttl_ms: int | None = None) -> Opened:
    """Manifest `number`. With a ttl, the scan's pin of it is renewed. Raises NotFound if there is no such manifest yet,
    SnapshotExpired if it is not retained any more, or should be kept and no scan pins it."""
    found, head = None, await files.live_head()
    for _ in range(LOOKS_MAX):
        found = await files.manifest.read(number)
        # SUBTLE! The head, and the boundary with it, come after the manifest. 1. We read the boundary: N is retained.
        # 2. N is collected. 3. A stalled writer creates N anew. 4. We read that. Test:
        # tests/log/test_manifests_by_number.py
        head = await files.live_head()
        if number > head.id:
            raise NotFound(f"{files.name} has no manifest {number} yet: the newest is {head.id}")
        if found is not None or number <= _dead(files):
            break  # else it was created only after it was read
    now_ms = await Now()
    pins = [pin for pin in head.checkpoints if pin.manifest == number and not expired(pin, now_ms)]
    if pins and found is not None and found.lacks:
        key = files.keys.manifest.key(number)
        raise Corrupt(pin_missing_text(files.keys.topic, pins[0], key, found.lacks), found.lacks)
    if found is None or found.value is None or (number <= _dead(files) and not pins):
        raise SnapshotExpired(f"{files.name}: manifest {number} is no longer retained; take a new snapshot")
    if ttl_ms is not None and not pins:
        raise SnapshotExpired(
            f"{files.name}: nothing pins manifest {number}, and a manifest of the past cannot be pinned: take a "
            "snapshot with a ttl, and hand its number on"
        )
    mine = next((pin for pin in pins if pin.owner == "scan"), None)
    if ttl_ms is None or mine is None:
        return found.value, mine or next(iter(pins), None)
    expires_at_ms = await renewed(files, Hold(mine.id, ttl_ms, 0))
    if expires_at_ms is None:
        raise SnapshotExpired(f"{files.name}: the pin of manifest {number} was let go; take a new snapshot")
    return found.value, replace(mine, expires_at_ms=expires_at_ms)


def _dead(files: PartitionFiles) -> int:
    """The largest dead number, as read with the head."""
    boundary = files.boundary.seen.value
    return 0 if boundary is None else boundary.manifest


def hold_of(pin: Checkpoint | None, ttl_ms: int | None) -> Hold | None:
    """What readers renew: the pin of a scan, and nobody else's."""
    if pin is None or ttl_ms is None or pin.owner != "scan" or pin.expires_at_ms is None:
        return None
    return Hold(pin.id, ttl_ms, pin.expires_at_ms)


async def renewed(files: PartitionFiles, hold: Hold) -> int | None:
    """Let the pin expire a ttl from now, unless somebody has renewed it meanwhile; returns its expiry. None: it is
    gone."""
    head, now_ms = await files.head(), await Now()
    pin = next((pin for pin in head.checkpoints if pin.id == hold.id), None)
    if pin is None or expired(pin, now_ms):
        return None
    if pin.expires_at_ms is None or now_ms < _due_ms(pin.expires_at_ms, hold.ttl_ms):
        return pin.expires_at_ms
    try:
        return (await files.manifest.commit(RefreshCheckpoint(pin.id, hold.ttl_ms))).result.expires_at_ms
    except NotFound:
        return None


def _due_ms(expires_at_ms: int, ttl_ms: int) -> int:
    """When a pin that expires then is due for renewal."""
    return expires_at_ms - ttl_ms * (RENEWALS - 1) // RENEWALS


class Renewal:
    """Renews a pin on behalf of one reader."""

    def __init__(self, files: PartitionFiles, hold: Hold) -> None:
        self._files = files
        self._hold = hold
        self._due_ms: int | None = _due_ms(hold.expires_at_ms, hold.ttl_ms)
        self._failed = False

    def due(self, now_ms: int) -> bool:
        return self._due_ms is not None and self._due_ms <= now_ms

    async def keep(self) -> bool:
        """Renew the pin if it is due; costs nothing before that. Returns whether the pin is known to last. Never raises
        a LithifyError: what is read is right, and whoever meets a missing file is told."""
        now_ms = await Now()
        if self._due_ms is None:
            return False
        if now_ms < self._due_ms:
            return not self._failed
        try:
            expires_at_ms, self._failed = await renewed(self._files, self._hold), False
        except LithifyError:
            self._due_ms, self._failed = now_ms + self._hold.ttl_ms // FAILED, True
            return False
        self._due_ms = None if expires_at_ms is None else _due_ms(expires_at_ms, self._hold.ttl_ms)
        return expires_at_ms is not None


class Renewals:
    """Renews the pins of a query on behalf of one reader of it: that of its own partition whenever it is due, and those
    of others in turn, few at a time, because other readers do the same."""

    def __init__(self, own: Renewal, others: Iterable[Renewal], ttl_ms: int) -> None:
        self._own = own
        self._others = deque(others)
        self._ttl_ms = ttl_ms
        self._kept_ms: int | None = None

    async def keep(self) -> None:
        """To be called again and again: however far apart, each pin that is due has its turn within a sixth of the
        ttl. Never raises a LithifyError."""
        await self._own.keep()
        if not self._others:
            return
        now_ms = await Now()
        passed_ms = now_ms - (now_ms if self._kept_ms is None else self._kept_ms)
        self._kept_ms = now_ms
        turns = 1 + len(self._others) * passed_ms * AROUND // self._ttl_ms
        for _ in range(len(self._others)):
            if turns and self._others[0].due(now_ms):
                await self._others[0].keep()
                turns -= 1
            elif not turns:
                break
            self._others.rotate(-1)
