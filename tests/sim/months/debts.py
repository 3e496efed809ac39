"""How old debts are, by the table of RFC 0008 and the judge's own reckoning of it: no code of the product's."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.judge.debts import cleanable, dues_of_cleaning
from tests.sim.judge.floors import log_start
from tests.sim.judge.layout import Json, Unit, cleaned_to, segments_of, units_of
from tests.sim.judge.settings import DEFAULTS, Settings
from tests.sim.months.bounds import EDIT_MS, SHORT_BYTES, long_ms, short_ms
from tests.sim.months.engine import BYTES_PER_MS, SLOTS
from tests.sim.months.ledger import Ledger, Partition
from tests.sim.months.services import CONCURRENCY

__all__ = ["Debts"]


class Owed(NamedTuple):
    name: str
    since_ms: int
    bound_ms: int
    relieved: bool  # beside a job of the partition's own, too


class Debts:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen: dict[tuple[str, str, object], int] = {}  # since when a debt that tells no time was seen
        self.oldest: Counter[str] = Counter()  # in served time
        self.bounds: Counter[str] = Counter()  # the largest that any was held to
        self.most: Counter[str] = Counter()  # L0 segments, and runs

    def look(self) -> None:
        """At all partitions, now."""
        now_ms = self._ledger.site.clock.now_ms
        seen: dict[tuple[str, str, object], int] = {}
        live = [each for each in self._ledger.partitions.values() if each.topic in self._ledger.settings]
        heads = [(each, head) for each in live if (head := self._ledger.head(each)) and not head.get("sealed")]
        for partition, head in heads:
            partition.bytes = sum(each["bytes"] for each in segments_of(head))
        sizes = sorted(partition.bytes for partition, _ in heads)
        others_ms = (sizes[-2] if len(sizes) > 1 else 0) * (CONCURRENCY + 2) // (SLOTS * BYTES_PER_MS)
        for partition, head in heads:
            self._ledger.settle(partition)
            altered_ms, config, _ = self._ledger.settings[partition.topic]
            for owed in self._owed(partition, head, config, len(heads), others_ms, seen):
                self._held(partition, owed, max(owed.since_ms, altered_ms), now_ms)
            self.most["L0 segments"] = max(self.most["L0 segments"], partition.units[0])
            self.most["sorted runs"] = max(self.most["sorted runs"], partition.units[1])
        self._seen = seen

    def _held(self, partition: Partition, owed: Owed, since_ms: int, now_ms: int) -> None:
        if owed.name == "floor":  # retention goes on where compaction is paused
            age_ms = self._ledger.site.served.since(since_ms, now_ms)
        else:
            age_ms = (partition.unstopped if owed.relieved else partition.free).since(since_ms, now_ms)
        self.oldest[owed.name] = max(self.oldest[owed.name], age_ms)
        self.bounds[owed.name] = max(self.bounds[owed.name], owed.bound_ms)
        if age_ms > owed.bound_ms:
            self._ledger.site.clock.fail(
                f"{partition.root} owes {owed.name} for {age_ms} ms in which it was served; {owed.bound_ms} are allowed"
            )

    def _owed(
        self,
        partition: Partition,
        head: Json,
        config: Settings,
        count: int,
        others_ms: int,
        seen: dict[tuple[str, str, object], int],
    ) -> Iterator[Owed]:
        now_ms = self._ledger.site.clock.now_ms

        def first_seen(name: str, what: object) -> int:
            place = (partition.root, name, what)
            seen[place] = self._seen.get(place, now_ms)
            return seen[place]

        floor, held = log_start(head, now_ms), {s for job in partition.state.jobs for s in job.segments}
        for each in segments_of(head):
            if each["max_offset"] < floor and each["id"] not in held:
                yield Owed("floor", first_seen("floor", each["id"]), EDIT_MS, True)
        units = units_of(head)
        old = cleanable(units, config, now_ms) if config.compacted else units
        size = sum(unit.bytes for unit in units)
        slow_ms, quick_ms = long_ms(count, others_ms), short_ms(count)
        yield from self._of_l0(partition, head, config, old, slow_ms if size > SHORT_BYTES else quick_ms, quick_ms)
        if config.compacted:
            to = cleaned_to(head)
            for text in dues_of_cleaning(head, config, now_ms):
                name = "overdue" if "C5" in text else "dirty" if "C1" in text else "tombstones"
                since_ms = first_seen(name, to)
                if name == "overdue":
                    dirty = [unit.min_timestamp_ms for unit in old if unit.max_offset >= to]
                    since_ms = min(dirty) + config.longest_lag_ms
                yield Owed(name, since_ms, slow_ms if size > SHORT_BYTES else quick_ms, False)

    def _of_l0(
        self, partition: Partition, head: Json, config: Settings, old: list[Unit], tier_ms: int, quick_ms: int
    ) -> Iterator[Owed]:
        """Since when the newest of those that are enough for a tier is there."""
        most = int(self._limit(partition.topic))
        least = most - most // 4
        born = partition.born
        l0 = head.get("l0", [])
        if len(l0) >= least:
            yield Owed("l0-pressure", born[l0[least - 1]["added_at"]], quick_ms, True)
        loose = [unit for unit in old if not unit.is_run]
        if len(loose) >= config.l0_tier:
            enough = loose[config.l0_tier - 1]
            since_ms = max(born[enough.segments[0]["added_at"]], enough.max_timestamp_ms + config.lag_ms)
            yield Owed("l0", since_ms, tier_ms, False)

    def _limit(self, topic: str) -> str:
        shape = next((each for each in self._ledger.site.shapes if each.name == topic), None)
        given = shape.config if shape is not None else {}
        return given.get("l0.segments.max", DEFAULTS["l0.segments.max"])
