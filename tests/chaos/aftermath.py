"""After a storm: what it was, and whether anything was lost, doubled or left behind."""

from collections import Counter
from collections.abc import Mapping

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.manifest.keys import PartitionKeys
from tests.chaos.actors import PARTITIONS, TOPICS
from tests.chaos.faults import Faults
from tests.chaos.lineage import Ledger, Past
from tests.chaos.records import Tally, Told, record
from tests.e2e.workload import partition_files, scanned, segment_ids

PASSES = 20


class Aftermath:
    """`producers`: how many records each idempotent one sent to each topic."""

    def __init__(
        self,
        warehouse: lithify.Warehouse,
        faults: Faults,
        ledger: Ledger,
        told: Told,
        tally: Tally,
        producers: Mapping[str, int],
    ) -> None:
        self._warehouse = warehouse
        self.faults = faults
        self._ledger, self._told, self._tally = ledger, told, tally
        self._producers = producers
        self._places = [(topic, number) for topic in TOPICS for number in range(PARTITIONS[topic])]
        self.pasts = self._read()

    def _read(self) -> dict[tuple[str, int], Past]:
        return {place: Past(self._ledger, self._keys(*place)) for place in self._places}

    def _keys(self, topic: str, partition: int) -> PartitionKeys:
        return partition_files(self._warehouse, topic, partition).keys

    @property
    def commits(self) -> int:
        return sum(len(past.manifests) for past in self.pasts.values())

    def told_of(self) -> str:
        """Figures, for whoever watches."""
        compactors = sum(len(past.compactors) for past in self.pasts.values())
        boundaries = sum(len(past.boundaries) for past in self.pasts.values())
        lines = [
            f"{self.commits} manifests, {compactors} compactor files, {boundaries} boundaries committed",
            f"{self.faults.requests} requests, {self.faults.share:.1%} of them faulty",
        ]
        for counts in (self.faults.faulty, self._tally.counts):
            lines += [f"  {times:6} {what}" for what, times in sorted(counts.items())]
        return "\n".join(lines)

    def check(self) -> None:
        """Before the last compaction and collection, and after them."""
        self._check_log()
        self._settle()
        self.pasts = self._read()
        for past in self.pasts.values():
            past.check_epochs()
        self._check_log()
        self._check_nothing_is_left()

    def _check_log(self) -> None:
        for place, past in self.pasts.items():
            self._check_offsets(place, past)
        self._check_changes()
        self._check_users()
        report = Verifier(self._warehouse.driver, local_checks, True, lambda *_: None).verify(None)
        assert report.findings == ()

    def _check_offsets(self, place: tuple[str, int], past: Past) -> None:
        """The committed appends are the log, end to end, and every acknowledged offset is in one of them."""
        end = self._partition(*place).describe().next_offset
        assert sum(past.appended().values()) == end
        assert set(self._told.offsets[place]) <= set(range(end))

    def _partition(self, topic: str, number: int) -> lithify.Partition:
        return self._warehouse.topic(topic).partition(number)

    def _certain(self, topic: str) -> list[bytes]:
        """The records that are in `topic` once each: all of the producers', and what plain writers were told of."""
        sent = [record(name, number) for name, count in self._producers.items() for number in range(count)]
        told = [value for n in range(PARTITIONS[topic]) for value in self._told.offsets[topic, n].values()]
        return [one.value for one in sent if one.value] + [value for value in told if value.startswith(b"plain")]

    def _check_changes(self) -> None:
        """Everything is kept here: each record once, where its writer was told, and nothing else."""
        found: Counter[bytes] = Counter()
        for number in range(PARTITIONS["changes"]):
            partition = self._partition("changes", number)
            held = {one.offset: one.value for one in partition.read()}
            assert list(held) == list(range(partition.describe().next_offset))
            for offset, value in self._told.offsets["changes", number].items():
                assert held[offset] == value
            found.update(value for value in held.values() if value is not None)
        assert {value: times for value, times in found.items() if times > 1} == {}
        certain = set(self._certain("changes"))
        assert certain - set(found) == set(), "records were lost"
        assert set(found) - certain <= self._told.maybe, "records of which nobody was told"

    def _check_users(self) -> None:
        """Compacted: each key has its latest record; and no record is there twice, or the log's end would tell."""
        partition = self._partition("users", 0)
        certain, doubtful = self._certain("users"), {_key(value) for value in self._told.maybe}
        assert 0 <= partition.describe().next_offset - len(certain) <= len(self._told.maybe)
        latest: dict[bytes, bytes] = {}
        for value in certain:  # a writer appends one after the other, so its last in number is its latest
            latest[_key(value)] = max(value, latest.get(_key(value), value), key=_number)
        found = scanned(partition)
        for key in (latest.keys() | found.keys()) - doubtful:
            assert found.get(key) == latest.get(key)

    def _settle(self) -> None:
        compactor = lithify.Compactor(self._warehouse, engine="local")
        for _ in range(PASSES):
            if not compactor.run_once(take_over=True).more_work:
                break
        compactor.close()
        collector = lithify.Collector(self._warehouse, grace_ms=0)
        for _ in range(3):
            report = collector.run_once(sweep=True)
            assert [part.fault for part in report.partitions if part.fault] == []

    def _check_nothing_is_left(self) -> None:
        live: set[str] = set()
        for place in self._places:
            described = self._partition(*place).describe()
            live |= {segment.id for segment in described.l0}
            live |= {segment.id for run in described.runs for segment in run.segments}
            state = self._warehouse.driver.run(partition_files(self._warehouse, *place).compactor_state())
            assert state is None or state.jobs == ()  # None: no compaction was ever due
        assert segment_ids(self._warehouse) == live


def _key(value: bytes) -> bytes:
    writer, _, number = value.partition(b":")
    key = record(writer.decode(), int(number)).key
    assert key is not None
    return key


def _number(value: bytes) -> int:
    return int(value.partition(b":")[2])
