"""Histories of services: processes that serve as the product's own does, and what there is for them to relieve."""

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

from tests.sim import actors
from tests.sim.cast import Climate
from tests.sim.daemon import daemon
from tests.sim.site import Site

__all__ = ["Processes", "processes"]

STEPS = 1_600  # at least: a job of theirs is long
TICK_MS = 10
APPENDS = 60  # of each producer, at least
LEAVES_SHARE = 0.15  # of the rests of a process
SHORT_BYTES = 300  # as the jobs of large partitions, those of a few rows are not short


class Processes(NamedTuple):
    number: int
    config: Mapping[str, str]  # few L0 segments make pressure
    bytes_max: int | None
    beside: tuple[str, ...]  # who takes part beside them and those who append
    calm: bool

    def tune(self, stack: ExitStack) -> None:
        for module in ("needs", "relief") if self.number else ():
            stack.enter_context(patch(f"lithify.compactor.{module}.SHORT_BYTES", SHORT_BYTES))

    def steps(self, length: int) -> int:
        return max(length, STEPS) if self.number else length

    def appends(self, count: int) -> int:
        return max(count, APPENDS) if self.number else count

    def climate(self, climate: Climate) -> Climate:
        """Requests take little of the time that a job takes. In a half of these histories little goes wrong, so that
        much comes about."""
        if not self.number:
            return climate
        climate = replace(climate, tick_ms=min(climate.tick_ms, TICK_MS))
        if not self.calm:
            return climate
        return replace(
            climate,
            fault_share=climate.fault_share / 5,
            crash_share=climate.crash_share / 2,
            blackouts=(),
            full_spells=(),
            throttled=(),
        )

    def roster(self, site: Site, found: dict[str, actors.Life], take_over: float) -> dict[str, actors.Life]:
        """Most of the others are away. Producers are slow while no job runs: else a job would hold all there is, and
        there was nothing to relieve."""
        if not self.number:
            return found
        found = {name: live for name, live in found.items() if name.startswith(self.beside)}
        pressing = replace(site, presses=True)
        found |= {"plain 0": actors.plain(pressing), "idempotent 0": actors.idempotent(pressing, "p0")}
        for index in range(self.number):
            found[f"process {index}"] = daemon(site, take_over, self.bytes_max, leaves_share=LEAVES_SHARE)
        return found


def processes(seed: int | str, *, always: bool = False) -> Processes:
    """They have dice of their own: histories without them stay as they were."""
    dice = random.Random(f"{seed}/services")
    number = dice.choice((0,) * 20 + (1, 1, 1, 2)) or always * dice.choice((1, 1, 1, 2))
    if not number:
        return Processes(0, {}, None, (), calm=False)
    others = ("collector", "admin", "retention", "catalog", "compactor", "reader", "rot")
    beside = tuple(dice.sample(others, dice.choice((0, 1, 2, 3))))
    config = {"l0.segments.max": dice.choice(("6", "8", "12", "16"))}
    return Processes(number, config, dice.choice((None, 2_000)), beside, calm=dice.random() < 0.6)
