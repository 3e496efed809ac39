"""Where the objects of one partition are, against where its files say that they may be (P16, P18, P21; RFC 0031)."""

from typing import TYPE_CHECKING

from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, SegmentRef
from tests.sim.places import place

if TYPE_CHECKING:
    from tests.sim.faulty import FaultyStore

__all__ = ["Housed"]


class Housed:
    def __init__(self, keys: PartitionKeys, store: "FaultyStore") -> None:
        self._keys = keys
        self._store = store

    def places(self) -> set[str]:
        """Those besides the warehouse in which something of the partition is."""
        return {home for key, home in self._store.places.items() if key.startswith(self._keys.root)}

    def uncovered(self, home: str, head: Manifest | None, state: CompactorState | None) -> str | None:
        """Why what is in `home` would be found by no sweep, now or later."""
        jobs = () if state is None else (*state.jobs, *state.history)
        if head is None or home in head.homes or any(job.relocates and job.home == home for job in jobs):
            return None
        return f"no manifest notes {home}, and no job names it: what is there is swept by nobody (P18)"

    def all_covered(self, head: Manifest | None, state: CompactorState | None) -> str | None:
        for home in self.places():
            wrong = self.uncovered(home, head, state)
            if wrong is not None:
                return wrong
        return None

    def elsewhere(self, ref: SegmentRef) -> str | None:
        key = self._keys.segment(ref.id)
        at = self._store.places.get(key, "")
        return (
            None
            if at == place(ref) or key not in self._store.objects
            else f"names {ref.id} in {ref.home!r}, and its bytes are in {at!r} (P10)"
        )

    def retired_wrongly(self, previous: Manifest, manifest: Manifest) -> str | None:
        """An entry says where the bytes are that it will take with it (P16)."""
        was = {ref.id: ref.home for ref in previous.segments()}
        for each in manifest.retired:
            if was.get(each.id, each.home) != each.home:
                return f"retires {each.id} in {each.home!r}, and it is in {was[each.id]!r} (P16)"
        return None
