"""What a warehouse at rest costs, counted: one compactor and one collector with a service's settings, no writers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lithify.compactor.compactor import REST_MS as COMPACTOR_REST_MS
from lithify.compactor.compactor import Compactor
from lithify.gc.collector import INTERVAL_MS, Collector
from lithify.gc.collector import REST_MS as COLLECTOR_REST_MS
from tests.sim.cast import Violation
from tests.sim.clients.fibres import ask
from tests.sim.months.bucket import Bucket
from tests.sim.months.clock import DAY_MS, HOUR_MS, START_MS, Clock, Process, Spend
from tests.sim.months.engine import VirtualEngine
from tests.sim.months.history import quiet
from tests.sim.months.operators import make
from tests.sim.months.report import USD
from tests.sim.months.site import Site, WarehouseFace
from tests.sim.months.stand_ins import in_place
from tests.sim.months.topics import idle

__all__ = ["Idle", "idle_hour"]

SETTLES_MS = 2 * HOUR_MS  # until looks are as rare as they get
HOURS_OF_A_MONTH = 30 * 24


@dataclass(frozen=True)
class Idle:
    """An hour. Requests by role and kind."""

    partitions: int
    requests: Mapping[tuple[str, str], int]

    def dollars_a_month(self, role: str | None = None) -> float:
        """At list prices."""
        asked = [(kind, count) for (other, kind), count in self.requests.items() if role in (None, other)]
        return HOURS_OF_A_MONTH * sum(count * USD[kind] for kind, count in asked)


def idle_hour(partitions: int, seed: int = 0) -> Idle:
    clock = Clock(f"idle/{seed}")
    site = Site(f"idle/{seed}", clock, Bucket(clock), idle(partitions))
    clock.store = site.bucket
    with quiet(), in_place(clock):
        _begin(site)
        clock.run(START_MS + SETTLES_MS)
        before = Counter(site.bucket.requests)
        clock.run(clock.now_ms + HOUR_MS)
        asked = Counter(site.bucket.requests) - before
        clock.end()
    writes = {kind for (_, kind) in asked} & {"Create", "Put", "Delete"}
    if writes:
        raise Violation(f"who has nothing to do writes: {asked}")
    return Idle(partitions, asked)


def _begin(site: Site) -> None:
    clock = site.clock

    def makes(_: Process) -> None:
        for shape in site.shapes:
            make(site, shape)

    def compacts(process: Process) -> None:
        engine = VirtualEngine(process, site.bucket, lambda *_: None)
        Compactor(WarehouseFace(process.driver), engine, rest_ms=COMPACTOR_REST_MS).run()

    def collects(process: Process) -> None:
        collector = Collector(WarehouseFace(process.driver), rest_ms=COLLECTOR_REST_MS)
        for _ in range(DAY_MS // INTERVAL_MS):  # a sweep comes once a day, and is not of these hours
            collector.run_once()
            ask(Spend(INTERVAL_MS))

    clock.process("maker", "operators", makes)
    clock.process("compactor", "compactors", compacts)
    clock.process("collector", "collectors", collects)
