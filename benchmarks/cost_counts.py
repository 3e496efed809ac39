"""A year of a changelog in hot and cold homes, played with real files and a clock that is turned by hand: what it
stores, takes, writes and asks of each home. The figures depend on no machine's speed."""

import random
import shutil
from pathlib import Path

import msgspec

import lithify
from lithify.events.types import Event, JobEnded
from lithify.store.homes import HERE
from lithify.store.prices import DAY_MS
from lithify.store.request_counts import RequestCounts

__all__ = ["LAYOUTS", "RATES", "HomeCounts", "YearCounts", "counted", "year"]

RATES = (0.001, 0.01, 0.1)  # of the keys, updated each day
LAYOUTS = {"hot": None, "mixed": 30 * DAY_MS, "cold": 0}  # local.retention.ms; None: no cold home
KEYS = 2_000
STEP_DAYS = 5
YEAR_DAYS = 360
SEGMENT_BYTES = 32 << 10  # of an output, in place of 256 MiB
_START_MS = 1_700_000_000_000


class HomeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one home, in a year. Bytes are in shares of what is live."""

    stored: float  # on average, what waits to be collected included
    taken: float  # by compactions; each segment is read whole once, when it is replaced
    written: float  # appended, compacted, or moved here
    early_30: float  # stored for so many days: what is left of 30 when an object was deleted
    early_90: float
    segment_puts: float  # of segments, for each segment that a full topic has
    segment_gets: float
    own_puts: int  # of numbered files
    own_gets: int


class YearCounts(msgspec.Struct, frozen=True, kw_only=True):
    rate: float
    layout: str
    hot: HomeCounts
    cold: HomeCounts | None


class _Year:
    def __init__(self, folder: Path, rate: float, layout: str) -> None:
        self._now_ms = _START_MS
        self._dice = random.Random(f"{rate}")  # the same updates in each layout
        self._rate = rate
        cold = (folder / "cold").as_uri()
        config: dict[str, str] = {
            "cleanup.policy": "compact",
            "compaction.output.bytes": str(SEGMENT_BYTES),
            "l0.segments.tier": "4",
        }
        local_ms = LAYOUTS[layout]
        if local_ms is not None:
            config |= {"cold.location": cold, "local.retention.ms": str(local_ms), "hot.retain.segments": "1"}
        self._homes = (HERE,) if local_ms is None else (HERE, cold)
        self._warehouse = lithify.open(folder / "hot", lambda: self._now_ms)
        self._topic = self._warehouse.create_topic("changelog", config=config, probe=False)
        self._compactor = lithify.Compactor(self._warehouse, engine="local", events=self._heard)
        self._collector = lithify.Collector(self._warehouse, grace_ms=0)
        self._admin = lithify.Admin(self._warehouse)
        self._written = dict.fromkeys(self._homes, 0)
        self._taken = dict.fromkeys(self._homes, 0)
        self._born: dict[tuple[str, str], tuple[int, int]] = {}  # when an object was first there, and its bytes
        self._stored = dict.fromkeys(self._homes, 0)
        self._early = {(home, days): 0 for home in self._homes for days in (30, 90)}

    def play(self) -> tuple[dict[str, RequestCounts], int, int]:
        """What was asked of each home, how many bytes are live on average, and how many segments these are."""
        self._append(range(KEYS))
        self._admin.submit("changelog", 0)
        self._pass()
        self._written = dict.fromkeys(self._homes, 0)
        self._born.clear()
        self._look()
        self._stored = dict.fromkeys(self._homes, 0)
        before = {home: self._warehouse.driver.homes.store(home).requests() for home in self._homes}
        live = 0
        steps = YEAR_DAYS // STEP_DAYS
        for _ in range(steps):
            self._now_ms += STEP_DAYS * DAY_MS
            self._append(self._dice.sample(range(KEYS), round(KEYS * self._rate * STEP_DAYS)))
            self._pass()
            self._look()
            live += self._topic.partition(0).describe().bytes
        after = {home: self._warehouse.driver.homes.store(home).requests() for home in self._homes}
        self._compactor.close()
        size = live // steps
        return {home: after[home] - before[home] for home in self._homes}, size, max(size // SEGMENT_BYTES, 1)

    def _append(self, keys: "range | list[int]") -> None:
        records = [lithify.Record(b"key-%06d" % key, self._dice.randbytes(200), self._now_ms) for key in keys]
        self._topic.partition(0).append(records)
        self._written[HERE] += self._topic.partition(0).describe().l0[-1].bytes

    def _heard(self, event: Event) -> None:
        if isinstance(event, JobEnded):
            self._written[self._homes[-1] if event.kind == "relocate" else HERE] += event.made.bytes

    def _pass(self) -> None:
        self._compactor.run_once()
        for _ in range(2):  # what the first leaves to the next
            self._collector.run_once()

    def _look(self) -> None:
        """What is stored now, and what was deleted since."""
        head = self._admin.manifest("changelog", 0)
        there = {(each.home, each.id): each.bytes for each in (*head.segments(), *head.retired)}
        for name, (since_ms, size) in [*self._born.items()]:
            if name not in there:
                del self._born[name]
                self._taken[name[0]] += size
                for days in (30, 90):
                    self._early[name[0], days] += size * max(days - (self._now_ms - since_ms) // DAY_MS, 0)
        for name, size in there.items():
            self._born.setdefault(name, (self._now_ms, size))
            self._stored[name[0]] += size

    def of(self, home: str, counts: RequestCounts, size: int, segments: int) -> HomeCounts:
        steps = YEAR_DAYS // STEP_DAYS
        return HomeCounts(
            stored=round(self._stored[home] / steps / size, 4),
            taken=round(self._taken[home] / size, 4),
            written=round(self._written[home] / size, 4),
            early_30=round(self._early[home, 30] / size, 4),
            early_90=round(self._early[home, 90] / size, 4),
            segment_puts=round((counts.output_requests + counts.puts) / segments, 4),
            segment_gets=round((counts.reads + counts.heads) / segments, 4),
            own_puts=counts.creates + counts.lists,
            own_gets=counts.gets,
        )


def year(folder: Path, rate: float, layout: str) -> YearCounts:
    """`folder` is emptied before and after."""
    shutil.rmtree(folder, ignore_errors=True)
    played = _Year(folder, rate, layout)
    counts, size, segments = played.play()
    hot, *cold = (played.of(home, counts[home], size, segments) for home in counts)
    shutil.rmtree(folder)
    return YearCounts(rate=rate, layout=layout, hot=hot, cold=cold[0] if cold else None)


def counted(folder: Path) -> list[YearCounts]:
    return [year(folder, rate, layout) for rate in RATES for layout in LAYOUTS]
