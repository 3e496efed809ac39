"""The numbered files of one partition, as one client sees them."""

from collections.abc import Callable, Collection

from lithify.manifest.codec import LaterFormat
from lithify.manifest.commit import Lineage
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.invariants import check_boundary, check_compactor, check_manifest
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Boundary, Manifest
from lithify.manifest.refusals import topic_gone
from lithify.manifest.rests import Asks
from lithify.manifest.run_lists import RunLists
from lithify.manifest.version import Version
from lithify.store.errors import Corrupt, NotFound
from lithify.store.in_step import both

__all__ = ["Committed", "File", "PartitionFiles"]

File = Manifest | CompactorState
Committed = Callable[[File | None, File], None]
"""Is told of a commit: the file before it (None: it is the first of its chain), and the file."""


class PartitionFiles:
    """The three chains of a partition. The boundary chain says which numbers of the other two are dead (P4).

    Not thread-safe: one coroutine at a time. `committed` is told of each commit to these two through this object, once
    it is known to have happened (docs/rfcs/0015). `homes`: where this process can reach segments; it neither compacts
    nor collects those elsewhere.
    """

    def __init__(
        self, keys: PartitionKeys, committed: Committed | None = None, homes: Collection[str] = ONLY_HERE
    ) -> None:
        self.keys = keys
        self.committed = committed
        self.homes = homes
        self.boundary: Lineage[Boundary] = Lineage(keys.boundary, Boundary, check_boundary)
        self.manifest = self._manifests(committed, RunLists(keys))
        self.compactor: Lineage[CompactorState] = Lineage(
            keys.compactor, CompactorState, check_compactor, self.boundary, _dead_states, committed
        )

    def _manifests(self, committed: Committed | None, lists: RunLists | None) -> Lineage[Manifest]:
        chain = self.keys.manifest
        return Lineage(chain, Manifest, check_manifest, self.boundary, _dead_manifests, committed, lists)

    def again(self) -> "PartitionFiles":
        """Another object for the same files, which has read nothing yet."""
        return PartitionFiles(self.keys, self.committed, self.homes)

    def beside(self) -> "PartitionFiles":
        """Another object for the same files, which knows what this one knows, for another thread."""
        twin = self.again()
        twin.learn(self)
        return twin

    def learn(self, other: "PartitionFiles") -> None:
        """Know what `other` knows, which may be in use by another thread."""
        self.boundary.learn(other.boundary)
        self.manifest.learn(other.manifest)
        self.compactor.learn(other.compactor)

    @property
    def name(self) -> str:
        return f"{self.keys.topic}/{self.keys.partition}"

    async def head(self) -> Manifest:
        """The manifest's head (P3). Raises NotFound if the partition was never created."""
        return self._there((await self.manifest.refresh()).value)

    def _there(self, manifest: Manifest | None) -> Manifest:
        if manifest is None:
            raise NotFound(
                f"{self.name} has no manifest under {self.keys.root}; was the topic created in this warehouse?"
            )
        return manifest

    async def bare_head(self) -> Manifest:
        """As `head`, but as it is stored: reads no run list, so it lacks the runs that its lists list. For who looks
        at files; nothing may be made of it."""
        return self._there((await self._manifests(None, None).refresh()).value)

    async def live_head(self) -> Manifest:
        """As `head`. Also raises NotFound if the topic was deleted."""
        manifest = await self.head()
        if manifest.sealed:
            raise topic_gone(manifest)
        return manifest

    async def pinned(self, number: int) -> Version[Manifest] | None:
        """Manifest `number`, which a checkpoint pins, or pinned. None: it is there no more.

        SUBTLE! 1. We read a head that lists `number`. 2. The pin is let go of, and the file deleted. 3. A stalled
        writer creates the dead number anew, and names what it is about to commit. 4. We read that, and delete what only
        it names. But what was pinned holds the checkpoint of its own commit (P20). Test:
        tests/protocol/test_p20_created_anew.py
        """
        return _if_pinned(await self.manifest.read(number))

    async def shown(self, number: int) -> Version[Manifest] | None:
        """Manifest `number`, for who looks at files. None: there is none, or it is dead and no checkpoint pinned it:
        then a stalled writer may have created it anew. The boundary is read after it. If that is damaged, it decides
        nothing: then people look at manifests."""
        version = await self.manifest.read(number)
        try:
            dead = await self.manifest.dead()
        except (Corrupt, LaterFormat):
            return version
        return version if number > dead else _if_pinned(version)

    async def moved(self, asks: Asks) -> bool:
        """Whether one of these chains has a number after the newest one seen. Costs a GET each; that there is none
        proves nothing (P3)."""
        if asks.manifest and await self.manifest.moved():
            return True
        if asks.compactor and await self.compactor.moved():
            return True
        return asks.boundary and await self.boundary.moved()

    async def heads(self) -> tuple[Manifest, CompactorState | None]:
        """The head of the manifest and that of `.compactor`, asked for in step. Raises NotFound.

        SUBTLE! A claim is written into the manifest first, then into `.compactor` (P5). 1. We read `.compactor`: its
        owner shows no life. 2. A standby claims the partition, in both. 3. We read the manifest, whose epoch is the new
        one: we would claim the next epoch, from an owner that has just begun. Therefore `.compactor` is read again,
        after the manifest, if it is behind it. Test: tests/protocol/test_p05_heads_together.py
        """
        manifest, state = await both(self.head(), self.compactor_state())
        if manifest.compactor_epoch > (0 if state is None else state.epoch):
            state = await self.compactor_state()
        return manifest, state

    async def compactor_state(self) -> CompactorState | None:
        """The compactor's state, or None if there never was a compactor or a request."""
        return (await self.compactor.refresh()).value


def _if_pinned(version: Version[Manifest] | None) -> Version[Manifest] | None:
    if version is None or version.value is None:
        return version
    return version if any(pin.manifest == version.number for pin in version.value.checkpoints) else None


def _dead_manifests(boundary: Boundary) -> int:
    return boundary.manifest


def _dead_states(boundary: Boundary) -> int:
    return boundary.compactor
