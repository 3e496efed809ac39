"""Where a scenario is played: a warehouse, an injected clock, a real engine; all through the public face."""

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

import lithify
from lithify.compactor.engine import Engine, Running
from lithify.log.record import to_records
from lithify.manifest.homes import where
from lithify.manifest.keys import PartitionKeys
from lithify.segment.task import MergeTask
from lithify.store.homes import Homes
from tests.scenarios.place import Place, cool, homes_of_runs
from tests.scenarios.scenario import Scenario, duration_ms, record, said

__all__ = ["Stage"]

TOPIC = "t"
START_MS = 1_700_000_000_000
# The compactor does what a scenario asks for, unless the scenario is about what it does by itself.
QUIET = {"min.cleanable.dirty.ratio": "1", "l0.segments.tier": "4096", "runs.tier": "256"}


class _Noting:
    """A real engine, and the order in which it was given partitions to merge."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name
        self.order: list[int] = []

    def start(self, homes: Homes, tasks: Sequence[MergeTask], label: str) -> Running:
        self.order.append(tasks[0].keys.partition)
        return self._engine.start(homes, tasks, label)

    def close(self) -> None:
        """It serves other scenarios."""


class Stage:
    def __init__(self, scenario: Scenario, layout: str, engine: Engine, place: Place) -> None:
        self._layout = layout
        self._now_ms = START_MS
        self._engine = _Noting(engine)
        self._place = place
        self.moved = 0  # segments, to the cold home
        self._report: lithify.MaintenanceReport | None = None
        self._steps = scenario.steps
        self._partitions = scenario.partitions
        config = QUIET | {name: self._setting(value) for name, value in scenario.config.items()}
        if place.cold:
            config["cold.location"] = place.cold
        self._warehouse = self._opened()
        self._topic = self._warehouse.create_topic(TOPIC, scenario.partitions, config, probe=False)
        self._open()

    def _clock(self) -> int:
        return self._now_ms

    def _opened(self) -> lithify.Warehouse:
        return lithify.open(self._place.url, self._clock, self._place.options)

    def _open(self) -> None:
        self._warehouse.close()
        self._warehouse = self._opened()
        self._topic = self._warehouse.topic(TOPIC)
        self._admin = lithify.Admin(self._warehouse)
        self._collector = lithify.Collector(self._warehouse)

    def play(self) -> None:
        for number, step in enumerate(self._steps):
            try:
                self._step(step)
                self._cool()
            except Exception as error:
                error.add_note(f"step {number}: {step}; {self._topic.describe()}")
                raise
        self._warehouse.close()

    def _cool(self) -> None:
        if self._place.cold:
            for partition in range(self._partitions):
                self.moved += cool(self._warehouse, TOPIC, partition, self._place.cold)

    def _step(self, step: dict[str, Any]) -> None:
        partition = step.get("partition", 0)
        ways: dict[str, Callable[[Any], object]] = {
            "append": lambda texts: self._append(partition, texts),
            "fill": lambda wanted: self._fill(partition, wanted["keys"]),
            "bulk": lambda wanted: self._bulk(partition, wanted["records"], wanted["bytes"]),
            "advance": self._advance,
            "compact": lambda _: self._compact(),
            "clean": lambda _: self._submit(partition, "full"),
            "tier": lambda indexes: self._tier(partition, indexes),
            "collect": lambda how: self._collector.run_once(sweep=how == "sweep"),
            "alter": lambda changes: self._topic.alter({n: self._setting(v) for n, v in changes.items()}),
            "delete_records": lambda before: self._topic.partition(partition).delete_records(before),
            "checkpoint": lambda name: self._topic.partition(partition).snapshot(pin=name),
            "reopen": lambda _: self._open(),
            "damage": lambda index: self._damage(partition, index),
            "expect": lambda expected: self._expect(partition, expected),
        }
        verbs = step.keys() - {"partition", "error"}
        assert len(verbs) == 1, f"{step}: one verb for each step"
        (verb,) = verbs
        if "error" not in step:
            ways[verb](step[verb])
            return
        kind, _, part = step["error"].partition(": ")
        with pytest.raises(lithify.LithifyError, match=re.escape(part)) as caught:
            ways[verb](step[verb])
        assert caught.type.__name__ == kind

    def _setting(self, value: Any) -> Any:
        """Durations as text; "2 segments" is the bytes of the last two."""
        if not isinstance(value, str):
            return value
        if value.endswith(" segments"):
            return sum(ref.bytes for ref in self._topic.partition(0).describe().l0[-int(value.split()[0]) :])
        return duration_ms(value) if value[-1:] in "smhdw" and value[:1].isdigit() else value

    def _append(self, partition: int, texts: list[str]) -> None:
        self._topic.partition(partition).append([record(text, self._now_ms) for text in texts])

    def _fill(self, partition: int, keys: int) -> None:
        """A record of each of so many keys, in one append."""
        stamp = self._topic.partition(partition).describe().next_offset
        records = [lithify.Record(b"key-%06d" % at, b"value %d" % (stamp + at), self._now_ms) for at in range(keys)]
        self._topic.partition(partition).append(records)

    def _bulk(self, partition: int, records: int, size: int) -> None:
        """So many records in one append, each with a value of so many bytes that no codec makes fewer."""
        stamp = self._topic.partition(partition).describe().next_offset
        values = random.Random(stamp)
        found = [lithify.Record(b"key-%06d" % (stamp + at), values.randbytes(size)) for at in range(records)]
        self._topic.partition(partition).append(found)

    def _advance(self, text: str) -> None:
        self._now_ms += duration_ms(text)

    def _compact(self) -> None:
        """A pass of a compactor that comes new to it: what is due is done, whoever ran before."""
        self._engine.order.clear()
        compactor = lithify.Compactor(self._warehouse, self._engine, concurrency=1)
        self._report = compactor.run_once(take_over=True)

    def _units(self, partition: int) -> list[str]:
        """L0 segments and runs, oldest first."""
        info = self._topic.partition(partition).describe()
        found = [(run.segments[0].min_offset, run.id) for run in info.runs]
        found += [(ref.min_offset, ref.id) for ref in info.l0]
        return [unit for _, unit in sorted(found)]

    def _submit(self, partition: int, sources: Any) -> None:
        self._admin.submit(TOPIC, partition, sources)
        self._compact()

    def _tier(self, partition: int, indexes: list[int]) -> None:
        units = self._units(partition)
        self._submit(partition, [units[index] for index in indexes])

    def _damage(self, partition: int, index: int) -> None:
        info = self._topic.describe()
        home, key = where(PartitionKeys(TOPIC, info.topic_id, partition), info.partitions[partition].l0[index])
        store = self._warehouse.driver.homes.store(home)
        found = store.get(key)
        assert found is not None
        middle = len(found.body) // 2
        store.put(key, found.body[:middle] + bytes([found.body[middle] ^ 0xFF]) + found.body[middle + 1 :])

    def _arrange(self, partition: int) -> None:
        """Bring the data into the layout: whatever lies there must read the same."""
        units = self._units(partition)
        if self._layout == "cleaned" and units:
            self._submit(partition, "full")
        elif self._layout == "tiered" and len(units) > 1:
            self._submit(partition, units[1:])  # with the oldest it would be a clean
        elif self._layout == "mixed" and units:
            third = -(-len(units) // 3)
            self._submit(partition, units[:third])
            self._cool()
            rest = [unit for unit in units[third : 2 * third] if unit in self._units(partition)]
            if rest:
                self._submit(partition, rest)

    def _expect(self, partition: int, expected: dict[str, Any]) -> None:
        if not expected.get("as_it_is", False):
            self._arrange(partition)
        self._cool()
        assert homes_of_runs(self._warehouse, TOPIC, partition) <= {self._place.cold}
        for name, wanted in expected.items():
            if isinstance(wanted, dict) and wanted.keys() & {"l0", "tiered", "cleaned", "mixed"}:
                if self._layout not in wanted:
                    continue
                wanted = wanted[self._layout]
            if name != "as_it_is":
                self._check(partition, name, wanted)

    def _check(self, partition: int, name: str, wanted: Any) -> None:
        handle = self._topic.partition(partition)
        info = handle.describe()
        if name == "pinned":
            snapshot = handle.snapshot(pin=wanted["name"])
            assert [r.offset for r in snapshot.read()] == wanted["offsets"]
            assert [said(r) for r in to_records(iter(snapshot.scan()))] == wanted["scan"]
            return
        if name in ("due", "quarantine") and isinstance(wanted, str):
            assert wanted in (getattr(info, name) or ""), f"{name}: {getattr(info, name)}"
            return
        found: dict[str, Callable[[], Any]] = {
            "offsets": lambda: [r.offset for r in handle.read()],
            "records": lambda: [said(r) for r in handle.read()],
            "ages": lambda: [f"{self._now_ms - (r.timestamp_ms or 0)}ms" for r in handle.read()],
            "first_from": lambda: [next(handle.read(start)).offset for start, _ in wanted],
            "scan": lambda: [said(r) for r in to_records(iter(handle.scan()))],
            "get": lambda: [_shown(text, handle.get(text.partition("=")[0].encode())) for text in wanted],
            "log_start": lambda: info.log_start_offset,
            "next_offset": lambda: info.next_offset,
            "cleaned_to": lambda: info.cleaned_to,
            "segments": lambda: len(info.l0) + sum(len(run.segments) for run in info.runs),
            "several_segments": lambda: any(len(run.segments) > 1 for run in info.runs),
            "keys_in_one_segment": lambda: all(
                (a.max_key or b"") < (b.min_key or b"") for run in info.runs for a, b in pairwise(run.segments)
            ),
            "stored_rows": lambda: info.rows,
            "due": lambda: info.due is not None,
            "quarantine": lambda: info.quarantine is not None,
            "retention_pinned": lambda: info.retention_pinned is not None,
            "jobs": lambda: [] if self._report is None else [f"{job.kind} {job.status}" for job in self._report.jobs],
            "order": lambda: self._engine.order,
        }
        asked = [list(pair) for pair in wanted] if name == "first_from" else wanted
        answer = found[name]()
        if name == "first_from":
            answer = [[start, first] for (start, _), first in zip(wanted, answer, strict=True)]
        assert answer == asked, f"{name}: {answer}, not {asked}"


def _shown(text: str, found: lithify.Record | None) -> str:
    """`key=value`, or `key` alone where there is none."""
    return text.partition("=")[0] if found is None else said(found)
