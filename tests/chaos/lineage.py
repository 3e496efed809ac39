"""Every numbered file that the store was seen to take, whoever was told of it: the whole past, collected or not."""

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote

from lithify.manifest.codec import decode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import Chain, PartitionKeys
from lithify.manifest.model import Boundary, Manifest, Numbered
from lithify.testing.front import Deed, Seen
from tests.lists import whole

S = TypeVar("S", bound=Numbered)

CREATED = 200


class Ledger:
    """The observer of a `Front`, of whose requests `coming` is told beforehand; keys as in the warehouse `root`
    (bucket/prefix). Thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = f"/{root}/"
        self._lock = threading.Lock()
        self._steps = 0
        self._came: dict[str, int] = {}  # the step before the first request to create it
        self._stored: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)  # (the step after it, body)

    def coming(self, seen: Seen) -> None:
        if seen.conditional:
            with self._lock:
                self._steps += 1
                self._came.setdefault(self._key(seen), self._steps)

    def __call__(self, seen: Seen, deed: Deed, body: bytes, status: int) -> None:
        if seen.conditional and status == CREATED:
            with self._lock:
                self._steps += 1
                self._stored[self._key(seen)].append((self._steps, body))

    def _key(self, seen: Seen) -> str:
        return unquote(seen.path.partition("?")[0]).removeprefix(self._root)

    def chain(self, chain: Chain, kind: type[S], dead_at: Callable[[int], int]) -> dict[int, S]:
        """What each number of `chain` held. `dead_at`: the highest number that could be dead at a step.

        A number is stored twice only after it was collected, by a writer who slept through that, and who is told by the
        boundary that it came to nothing (P4). What it held first counts.
        """
        found: dict[int, S] = {}
        for key, bodies in sorted(self._stored.items()):
            number = chain.number(key)
            if number is None:
                continue
            for step, _ in bodies[1:]:
                assert number <= dead_at(step), f"{key} was stored again while it was alive: it had two owners"
            found[number] = decode(kind, bodies[0][1], key, number)
        assert sorted(found) == list(range(1, len(found) + 1)), f"{chain.prefix} has gaps: {sorted(found)}"
        return found

    def run_lists(self) -> dict[str, bytes]:
        """By key."""
        return {key: bodies[0][1] for key, bodies in self._stored.items() if key.endswith(".runs")}

    def came(self, key: str) -> int:
        return self._came[key]


class Past:
    """A partition's manifests, compactor files and boundaries, from the first to the last."""

    def __init__(self, ledger: Ledger, keys: PartitionKeys) -> None:
        self.boundaries = ledger.chain(keys.boundary, Boundary, lambda _: 0)
        began = [(ledger.came(keys.boundary.key(number)), one) for number, one in self.boundaries.items()]

        def dead_at(step: int, of: str) -> int:
            return max((getattr(one, of) for came, one in began if came < step), default=0)

        stored = ledger.chain(keys.manifest, Manifest, lambda step: dead_at(step, "manifest"))
        lists = ledger.run_lists()
        self.manifests = {number: whole(manifest, lists) for number, manifest in stored.items()}
        self.compactors = ledger.chain(keys.compactor, CompactorState, lambda step: dead_at(step, "compactor"))

    def appended(self) -> dict[int, int]:
        """The appends that were committed: rows by base offset."""
        found: dict[int, int] = {}
        for before, after in itertools.pairwise(self.manifests[number] for number in sorted(self.manifests)):
            if after.next_offset == before.next_offset:
                continue
            end = before.next_offset
            for new in (
                each for each in after.l0 if each.min_offset >= before.next_offset
            ):  # of one caller, or several
                assert new.base_offset == end, f"manifest {after.id} begins an append elsewhere"
                found[end], end = new.rows, end + new.rows
            assert after.next_offset == end, f"manifest {after.id} skips offsets"
        return found

    def check_epochs(self) -> None:
        """Epochs grow by one, in the manifest first, and each has one owner."""
        for before, after in itertools.pairwise(self.manifests[number] for number in sorted(self.manifests)):
            grown = after.compactor_epoch - before.compactor_epoch
            assert grown in (0, 1), f"manifest {after.id}: epoch {before.compactor_epoch} to {after.compactor_epoch}"
        owners: defaultdict[int, set[str]] = defaultdict(set)
        epoch = 0
        for number in sorted(self.compactors):
            state = self.compactors[number]
            assert state.epoch >= epoch, f"compactor file {number}: epoch {epoch} fell to {state.epoch}"
            epoch = state.epoch
            owners[epoch] |= {state.owner} - {""}
        assert {epoch: names for epoch, names in owners.items() if len(names) > 1} == {}
