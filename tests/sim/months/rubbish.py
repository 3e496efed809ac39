"""What collection owes (RFC 0005): what is retired goes, dead numbers go with the pass that made them dead, and what
nothing names goes with a sweep."""

from collections import Counter

from tests.sim.judge.layout import Json, live
from tests.sim.months.bounds import BOUNDARY_STEP, GARBAGE_MS, ORPHAN_MS, PASS_MS, SWEEP_MS
from tests.sim.months.ledger import Ledger, Partition

__all__ = ["Rubbish"]


class Rubbish:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.oldest: Counter[str] = Counter()  # in time that was collected
        self.most_numbers = 0  # of one partition, above its boundary
        self.orphans_seen: set[tuple[str, str]] = set()

    @property
    def _now_ms(self) -> int:
        return self._ledger.site.clock.now_ms

    def _age_ms(self, since_ms: int) -> int:
        return self._ledger.site.collected.since(since_ms, self._now_ms)

    def look(self) -> None:
        for partition in self._ledger.partitions.values():
            self._ledger.settle(partition)
            head = self._ledger.head(partition)
            if not head:
                continue
            self._retired(partition, head)
            self._pins(partition, head)
            self._numbers(partition)
            self._orphans(partition, head)

    def _held(self, what: str, partition: Partition, name: str, age_ms: int, bound_ms: int) -> None:
        self.oldest[what] = max(self.oldest[what], age_ms)
        if age_ms > bound_ms:
            where = partition.root + name
            self._ledger.site.clock.fail(f"{where}: {what} for {age_ms} ms of collection; {bound_ms} are allowed")

    def _retired(self, partition: Partition, head: Json) -> None:
        for each in head.get("retired", ()):
            if not any(each["added_at"] <= pin < each["retired_at"] for pin in partition.pins):
                since_ms = max(partition.born[each["retired_at"]], partition.unpinned_ms)
                self._held("retired, and not forgotten", partition, each["id"], self._age_ms(since_ms), GARBAGE_MS)

    def _pins(self, partition: Partition, head: Json) -> None:
        for each in head.get("checkpoints", ()):
            over_ms = each.get("expires_at_ms")
            if over_ms is not None and over_ms < self._now_ms:
                age_ms = self._age_ms(over_ms)
                self._held("an expired checkpoint", partition, each["name"], age_ms, 3 * PASS_MS)

    def _numbers(self, partition: Partition) -> None:
        site, waiting = self._ledger.site, 0
        dead = partition.boundaries[-1][1] if partition.boundaries else {}
        for chain in ("manifest", "compactor"):
            edge = dead.get(chain, 0)
            for number, born_ms in partition.there[chain].items():
                if number > edge:
                    waiting += self._age_ms(born_ms) > GARBAGE_MS
                elif chain == "compactor" or number not in partition.pins:
                    passed_ms = _passed_ms(partition, chain, number)
                    untidy = site.collected.was_disturbed(passed_ms - PASS_MS, passed_ms + 2 * PASS_MS)
                    swept = untidy or (chain == "manifest" and number in partition.ever_pinned)
                    since_ms = max(passed_ms, partition.unpinned_ms) if swept else passed_ms
                    bound_ms = SWEEP_MS + 2 * PASS_MS if swept else 2 * PASS_MS
                    name = f"{chain}/{number}"
                    self._held("dead numbers left by a pass", partition, name, self._age_ms(since_ms), bound_ms)
        self.most_numbers = max(self.most_numbers, waiting)
        if waiting > BOUNDARY_STEP + 2:
            site.clock.fail(f"{partition.root}: {waiting} numbers could be dead for long, {BOUNDARY_STEP} may wait")

    def _orphans(self, partition: Partition, head: Json) -> None:
        named = live(head) | {each["id"] for each in head.get("retired", ())}
        unnamed = [each for each in partition.segments if each not in named]
        if not unnamed:
            return
        for pin in partition.pins:
            pinned = self._ledger.manifest(partition, pin)
            named |= live(pinned or {})
        kept = [job.id for job in (*partition.state.jobs, *partition.state.history) if job.status != "completed"]
        for each in unnamed:
            if each not in named and not any(each.startswith(job + "-") for job in kept):
                self.orphans_seen.add((partition.root, each))
                age_ms = self._age_ms(max(partition.segments[each], partition.unpinned_ms))
                self._held("a segment that nothing names", partition, each, age_ms, ORPHAN_MS)


def _passed_ms(partition: Partition, chain: str, number: int) -> int:
    """When a boundary passed it."""
    found_ms = 0
    for written_ms, boundary in reversed(partition.boundaries):
        if boundary.get(chain, 0) < number:
            break
        found_ms = written_ms
    return found_ms
