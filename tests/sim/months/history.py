"""Some days from a seed, judged while they pass and when everything has come to rest.

What is judged is the product's own code: the services with their schedulers, turns and coordinators, collectors,
appends, alters and pins. What the store holds is reckoned by its rules (bounds.py) without asking it.

It notices, within hours of the first day (sabotage.py): overdue records that are never ranked, a pass of collection
that leaves the numbers that it made dead, completed jobs that no manifest forgets, and a standby that never claims.
"""

import gc
import logging
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.sim.cast import Violation
from tests.sim.months import operators
from tests.sim.months.bucket import Bucket
from tests.sim.months.clock import DAY_MS, HOUR_MS, MINUTE_MS, START_MS, Clock
from tests.sim.months.debts import Debts
from tests.sim.months.ledger import Ledger
from tests.sim.months.rest import at_rest
from tests.sim.months.rubbish import Rubbish
from tests.sim.months.services import Fleet
from tests.sim.months.site import Site
from tests.sim.months.stand_ins import in_place
from tests.sim.months.topics import TOPICS, Shape

__all__ = ["Found", "play", "quiet"]

LOOK_MS, TIDY_MS = 15 * MINUTE_MS, HOUR_MS
REST_DAYS = 4  # all lags, horizons and grace periods one after the other
DAYS = 1  # of a short history


@dataclass
class Found:
    seed: int
    days: float
    site: Site
    ledger: Ledger
    debts: Debts
    rubbish: Rubbish
    counts: Counter[str]
    violation: str | None = None

    @property
    def days_played(self) -> float:
        return (self.site.clock.now_ms - START_MS) / DAY_MS


def play(
    seed: int,
    *,
    days: float = DAYS,
    rests: bool = True,
    tells: Callable[[Found], None] | None = None,
    beside: tuple[Shape, ...] = (),
) -> Found:
    """`beside`: topics beside those of topics.py."""
    clock = Clock(f"months/{seed}")
    site = Site(f"months/{seed}", clock, Bucket(clock), TOPICS + beside)
    clock.store = site.bucket
    ledger = Ledger(site)
    found = Found(seed, days, site, ledger, Debts(ledger), Rubbish(ledger), clock.counts)
    with quiet(), in_place(clock):
        try:
            _plays(found, site, rests=rests, tells=tells)
        except Violation as violation:
            found.violation = str(violation)
        clock.end()
    return found


def _plays(found: Found, site: Site, *, rests: bool, tells: Callable[[Found], None] | None) -> None:
    clock = site.clock
    fleet = Fleet(site)
    operators.begin(site)
    fleet.begin()
    clock.every(LOOK_MS, found.debts.look)
    clock.every(TIDY_MS, found.rubbish.look)
    for day in range(1, int(found.days) + 1):
        clock.run(START_MS + day * DAY_MS)
        gc.collect()
        if tells is not None:
            tells(found)
    clock.run(START_MS + int(found.days * DAY_MS))
    if not rests:
        return
    site.load_is_over = True
    clock.run(clock.now_ms + REST_DAYS * DAY_MS)
    for left in at_rest(found.ledger):
        raise Violation(f"at rest: {left}")


@contextmanager
def quiet() -> Generator[None]:
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
