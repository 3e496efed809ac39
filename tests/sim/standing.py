"""What stands of one partition in the store: its manifests, those that are dead, and what pins keep."""

from typing import NoReturn

import msgspec

from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Boundary, Manifest
from tests.sim.cast import Violation
from tests.sim.harms import Harms
from tests.sim.world import World

__all__ = ["Standing"]

_boundary = msgspec.json.Decoder(Boundary).decode

CLOCK_ERROR_MS = 2_000  # of ages: times are whole seconds, and a clock may stand still for a second unnoticed


class Standing:
    def __init__(self, keys: PartitionKeys, world: World, grace_ms: int, error_ms: int) -> None:
        self.keys = keys
        self.world = world
        self.head: Manifest | None = None
        self.boundary: Boundary | None = None
        self.harms = Harms()
        self.error_ms = error_ms  # of an age by two clocks
        self._grace_ms = grace_ms
        self._lineage: dict[int, Manifest] = {}
        self._created_ms: dict[int, int] = {}

    def fail(self, what: str) -> NoReturn:
        raise Violation(f"{self.keys.root}: {what}")

    def _refuse(self, wrong: str | None, what: str = "") -> None:
        if wrong is not None:
            self.fail(what + wrong)

    @property
    def dead(self) -> int:
        return 0 if self.boundary is None else self.boundary.manifest

    def retained(self, number: int) -> bool:
        """Whether a reader may rely on manifest `number`."""
        return number > self.dead or number in self.pins()

    def pins(self) -> set[int]:
        return set() if self.head is None else {c.manifest for c in self.head.checkpoints}

    def present(self, segment_id: str) -> bool:
        """Whether it is there, or was lost by no fault of the protocol."""
        return self.keys.segment(segment_id) in self.world.objects or segment_id in self.harms.now

    def _count(self, what: str) -> None:
        self.world.counts[f"commit: {what}"] += 1

    def pin_is_whole(self, number: int) -> None:
        pinned = self._lineage.get(number)
        if pinned is None or self.keys.manifest.key(number) not in self.world.objects:
            self.fail(f"pinned manifest {number} is not there (P17, P20)")
        for ref in pinned.segments():
            if not self.present(ref.id):
                self.fail(f"pinned manifest {number} names {ref.id}, which is gone (P20)")

    def boundary_created(self, number: int, body: bytes) -> None:
        previous, boundary = self.boundary, _boundary(body)
        if number != (0 if previous is None else previous.id) + 1:
            self.fail(f"boundary {number} comes after {previous and previous.id} (P4)")
        head = 0 if self.head is None else self.head.id
        if boundary.manifest >= head or boundary.manifest < self.dead:
            self.fail(f"boundary {boundary.manifest} does not lie between {self.dead} and the head {head} (P4)")
        late_ms = self.world.now_ms - self._grace_ms + CLOCK_ERROR_MS + self.error_ms
        for dead in range(self.dead + 1, boundary.manifest + 1):
            if self._created_ms[dead + 1] > late_ms:
                self.fail(f"manifest {dead} is dead, {self.world.now_ms - self._created_ms[dead + 1]} ms old (P17)")
        self.world.held("P4")
        if boundary.manifest > self.dead:
            self._count("boundary")
            self.world.held("P17")
        self.boundary = boundary

    def number_deleting(self, chain: str, number: int) -> None:
        if chain == "manifest" and self.retained(number):
            self.fail(f"manifest {number} is deleted, the boundary is {self.dead} and pins are {self.pins()} (P4, P17)")
        if chain == "compactor" and number > (0 if self.boundary is None else self.boundary.compactor):
            self.fail(f".compactor {number} is deleted above the boundary (P4)")
        self.world.held("P4", *(("P20",) if chain == "manifest" and self.pins() else ()))

    def named_at_rest(self) -> set[str]:
        """The segments that somebody may still read."""
        assert self.head is not None
        numbers = [self.head.id, *self.pins()]
        return {ref.id for number in numbers for ref in self._lineage[number].segments()}
