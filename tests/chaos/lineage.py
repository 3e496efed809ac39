"""Every numbered file that the store was seen to take, whoever was told of it: the whole past, collected or not."""

import itertools
import threading
from collections import defaultdict
from typing import TypeVar
from urllib.parse import unquote

from lithify.manifest.codec import decode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import Chain, PartitionKeys
from lithify.manifest.model import Boundary, Manifest, Numbered
from lithify.testing.front import Deed, Seen

S = TypeVar("S", bound=Numbered)

CREATED = 200


class Ledger:
    """The observer of a `Front`; keys as in the warehouse `root` (bucket/prefix). Thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = f"/{root}/"
        self._lock = threading.Lock()
        self._stored: defaultdict[str, list[bytes]] = defaultdict(list)
        self._told: defaultdict[str, set[bytes]] = defaultdict(set)

    def __call__(self, seen: Seen, deed: Deed, body: bytes, status: int) -> None:
        if not (seen.conditional and status == CREATED):
            return
        key = unquote(seen.path.partition("?")[0]).removeprefix(self._root)
        with self._lock:
            self._stored[key].append(body)
            if deed.status is None and deed.reply == "whole" and not deed.late_ms:
                self._told[key].add(body)

    def chain(self, chain: Chain, kind: type[S], dead: int) -> dict[int, S]:
        """What each number of `chain` held. A number is stored twice only after it was collected, by a writer who
        slept through that (P4); what it held counts, and nobody is told that the second came to anything."""
        found: dict[int, S] = {}
        for key, bodies in sorted(self._stored.items()):
            number = chain.number(key)
            if number is None:
                continue
            assert number <= dead or len(bodies) == 1, f"{key} was stored {len(bodies)} times"
            assert number <= dead or len(self._told[key]) <= 1, f"{key}: two writers were told that it is theirs"
            found[number] = decode(kind, bodies[0], key, number)
        assert sorted(found) == list(range(1, len(found) + 1)), f"{chain.prefix} has gaps: {sorted(found)}"
        return found


class Past:
    """A partition's manifests, compactor files and boundaries, from the first to the last."""

    def __init__(self, ledger: Ledger, keys: PartitionKeys) -> None:
        self.boundaries = ledger.chain(keys.boundary, Boundary, 0)
        last = self.boundaries.get(len(self.boundaries))
        self.manifests = ledger.chain(keys.manifest, Manifest, last.manifest if last else 0)
        self.compactors = ledger.chain(keys.compactor, CompactorState, last.compactor if last else 0)

    def appended(self) -> dict[int, int]:
        """The appends that were committed: rows by base offset."""
        found: dict[int, int] = {}
        for before, after in itertools.pairwise(self.manifests[number] for number in sorted(self.manifests)):
            if after.next_offset == before.next_offset:
                continue
            new = after.l0[-1]
            assert new.base_offset == before.next_offset, f"manifest {after.id} begins its append elsewhere"
            assert after.next_offset == before.next_offset + new.rows, f"manifest {after.id} skips offsets"
            found[before.next_offset] = new.rows
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
