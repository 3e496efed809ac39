"""The services, as their supervisors run them: two compactors that come and go, are killed and take over; collectors;
and a store that is away for minutes."""

import random

from lithify.compactor.compactor import Compactor
from lithify.compactor.info import PartitionReport
from lithify.gc.collector import GRACE_MS, Collector
from lithify.gc.collector import REST_MS as COLLECTOR_REST_MS
from lithify.store.errors import Fenced, Unavailable
from tests.sim.clients.fibres import ask
from tests.sim.months.bounds import (
    COLLECTED_AGAIN_MS,
    PASS_MS,
    REST_MS,
    ROUND_MS,
    SERVED_AGAIN_MS,
    STORE_BACK_MS,
    SWEEP_MS,
)
from tests.sim.months.clock import DAY_MS, HOUR_MS, MINUTE_MS, Process, Spend
from tests.sim.months.engine import VirtualEngine
from tests.sim.months.site import Site, WarehouseFace

__all__ = ["Daemon", "Fleet"]

KILLED_SHARE, TAKES_OVER_SHARE = 0.4, 0.15
CONCURRENCY = 2
FAULT = "a bug in lithify"  # so an error that nobody foresaw is told


class Daemon:
    """One compactor service, from life to life."""

    def __init__(self, site: Site, fleet: "Fleet", name: str) -> None:
        self._site = site
        self._fleet = fleet
        self._name = name
        self._dice = random.Random(f"{site.seed}/{name}")
        self.process: Process | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def begin(self) -> None:
        site, dice = self._site, self._dice
        takes_over = dice.random() < TAKES_OVER_SHARE
        site.daemons_begun += 1

        def main(process: Process) -> None:
            engine = VirtualEngine(process, site.bucket, self._fleet.merged)
            face = WarehouseFace(process.driver)
            compactor = Compactor(face, engine, concurrency=CONCURRENCY, interval_ms=ROUND_MS, rest_ms=REST_MS)
            leaves = dice.randrange(2 * HOUR_MS, 3 * DAY_MS)
            killed = dice.random() < KILLED_SHARE
            site.clock.after(leaves, lambda: self._leave(process, compactor, killed=killed))
            compactor.run(take_over=takes_over, tell=self._told)

        self.process = site.clock.process(self._name, "compactors", main)
        self.process.ended = self._ended
        self._fleet.changed()

    def _leave(self, process: Process, compactor: Compactor, *, killed: bool) -> None:
        if self._site.load_is_over or not process.alive:
            return
        self._site.clock.counts["compactor killed" if killed else "compactor stopped"] += 1
        if killed:
            process.kill()
        else:
            compactor.stop()

    def _told(self, report: PartitionReport) -> None:
        if FAULT in report.detail:
            self._site.clock.fail(f"{report.topic}/{report.partition}: {report.detail}")

    def _ended(self, error: BaseException | None) -> None:
        clock, rest_ms = self._site.clock, self._dice.choice((MINUTE_MS, 30 * MINUTE_MS, 5 * HOUR_MS))
        if isinstance(error, Fenced):
            clock.counts["compactor lost all it owned"] += 1
            rest_ms = MINUTE_MS
        elif error is not None:
            clock.fail(f"{self._name} ended with {type(error).__name__}: {error}")
        self._fleet.changed()
        clock.after(rest_ms, self.begin)


class Fleet:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._dice = random.Random(f"{site.seed}/fleet")
        self._daemons = [Daemon(site, self, name) for name in ("compactor a", "compactor b")]
        self._collector: Process | None = None

    def begin(self) -> None:
        clock = self._site.clock
        self._daemons[0].begin()
        clock.after(3 * HOUR_MS, self._daemons[1].begin)
        self._collect()
        clock.every(7 * HOUR_MS, self._passes_by)
        clock.after(self._dice.randrange(DAY_MS), self._goes_away)

    def merged(self, _: object, bytes_written: int) -> None:
        self._site.bytes_compacted += bytes_written

    def changed(self) -> None:
        """Somebody came or went."""
        there = any(daemon.alive for daemon in self._daemons)
        self._site.served.disturbed(self._site.clock.now_ms, SERVED_AGAIN_MS, there=there)

    # --- the store

    def _goes_away(self) -> None:
        site = self._site
        for_ms = self._dice.choice((MINUTE_MS, 5 * MINUTE_MS, 20 * MINUTE_MS))
        if not site.load_is_over:
            site.clock.counts["outage"] += 1
            site.bucket.away_until_ms = site.clock.now_ms + for_ms
            there = any(daemon.alive for daemon in self._daemons)
            site.served.disturbed(site.clock.now_ms, for_ms + STORE_BACK_MS, there=there)
            collects = self._collector is not None and self._collector.alive
            site.collected.disturbed(site.clock.now_ms, for_ms + COLLECTED_AGAIN_MS, there=collects)
        site.clock.after(DAY_MS + self._dice.randrange(3 * DAY_MS), self._goes_away)

    # --- collectors

    def _collect(self) -> None:
        site = self._site

        def main(process: Process) -> None:
            face = WarehouseFace(process.driver)
            collector, swept_ms = Collector(face, grace_ms=GRACE_MS, interval_ms=PASS_MS, rest_ms=COLLECTOR_REST_MS), 0
            while True:
                ask(Spend(PASS_MS))
                sweeps = site.clock.now_ms - swept_ms >= SWEEP_MS
                self._passes(collector, sweeps=sweeps)
                swept_ms = site.clock.now_ms if sweeps else swept_ms

        self._collector = site.clock.process("collector", "collectors", main)
        self._collector.ended = self._collector_ended
        site.collected.disturbed(site.clock.now_ms, COLLECTED_AGAIN_MS, there=True)
        site.clock.after(self._dice.randrange(2 * DAY_MS, 9 * DAY_MS), self._end_collector)

    def _end_collector(self) -> None:
        if self._collector is not None and self._collector.alive and not self._site.load_is_over:
            self._collector.kill()

    def _collector_ended(self, error: BaseException | None) -> None:
        site = self._site
        if error is not None:
            site.clock.fail(f"the collector ended with {type(error).__name__}: {error}")
        site.clock.counts["collector killed"] += 1
        site.collected.disturbed(site.clock.now_ms, 0, there=False)
        site.clock.after(self._dice.choice((HOUR_MS, 6 * HOUR_MS)), self._collect)

    def _passes_by(self) -> None:
        """A cold one makes one pass beside the other."""

        def main(process: Process) -> None:
            self._passes(Collector(WarehouseFace(process.driver), grace_ms=GRACE_MS), sweeps=False)

        self._site.clock.process("passer-by", "collectors", main)

    def _passes(self, collector: Collector, *, sweeps: bool) -> None:
        site = self._site
        try:
            report = collector.run_once(sweep=sweeps)
        except Unavailable:  # as the service has it: the next pass tries again
            site.clock.counts["pass met an outage"] += 1
            site.collected.disturbances.append(site.clock.now_ms)
            return
        site.clock.counts["sweep" if sweeps else "pass"] += 1
        for part in report.partitions:
            if part.fault is not None:
                site.clock.counts[f"collection: {part.fault.kind}"] += 1
                site.collected.disturbances.append(site.clock.now_ms)
                if FAULT in part.fault.message:
                    site.clock.fail(f"{part.topic}/{part.partition}: {part.fault.message}")
