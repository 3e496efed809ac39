"""What whoever gets from a head of a moment ago is promised once that moment is over (docs/rfcs/0025)."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from lithify.log.record import Record
from lithify.store.errors import SnapshotExpired
from lithify.store.port import Get, Pause
from tests.sim.cast import Violation
from tests.sim.clients.calm_readers import collects
from tests.sim.clients.site import LATER_MS, Site
from tests.sim.clients.truth import KEYS, partition_of_key
from tests.sim.clients.world import Process

__all__ = ["gets_again_later", "gets_what_was_collected", "sleeps_before_the_reply"]

LONG_MS = 3_600_000
STALENESS_MS = 1_000  # and LATER_MS is longer, by whatever clocks


def gets_again_later(site: Site) -> Callable[[Process], None]:
    """Another handle appends after a get; much later the same get finds that, though it may be a little out of date."""

    def main(process: Process) -> None:
        part = site.open(process).partition(partition_of_key(KEYS[0], site.truth.partitions))
        part.get(KEYS[0], max_staleness_ms=STALENESS_MS)
        site.open(process).append([Record(*site.new(b"since the get"))])
        process.driver.answer(Pause(LATER_MS))
        found = part.get(KEYS[0], max_staleness_ms=STALENESS_MS)
        if found is None or found.value != b"since the get":
            raise Violation(f"a get with a staleness of {STALENESS_MS} ms finds {found}, and much was later")
        site.world.held("how old a get may be")

    return main


def sleeps_before_the_reply(site: Site) -> Callable[[Process], None]:
    """A head is as old as the question: its last reply comes much later, and another process appends meanwhile."""

    def main(process: Process) -> None:
        part = site.open(process).partition(partition_of_key(KEYS[0], site.truth.partitions))
        part.get(KEYS[0])
        process.driver.answer(Pause(LATER_MS))  # so that the next one looks for the head
        driver, elsewhere = process.driver, site.open(process)
        asks, slept = driver.answer, False

        def answer(request: Any) -> Any:
            nonlocal slept
            reply = asks(request)
            if not slept and reply is None and isinstance(request, Get) and "/manifest/" in request.key:
                slept = True
                elsewhere.append([Record(*site.new(b"while it sleeps"))])
                asks(Pause(LATER_MS))
            return reply

        with patch.object(driver, "answer", answer):
            part.get(KEYS[0], max_staleness_ms=STALENESS_MS)
        found = part.get(KEYS[0], max_staleness_ms=STALENESS_MS)
        if slept and (found is None or found.value != b"while it sleeps"):
            raise Violation(f"a get with a staleness of {STALENESS_MS} ms finds {found}, by a head asked for long ago")
        site.world.held("how old a get may be")

    return main


def gets_what_was_collected(site: Site) -> Callable[[Process], None]:
    """What a known head names is compacted and collected: the get begins again from the head."""

    def main(process: Process) -> None:
        number = partition_of_key(KEYS[0], site.truth.partitions)
        for index in range(2):
            site.open(process).append([Record(*site.new(b"to be collected %d" % index))])
        part = site.open(process).partition(number)
        part.get(b"nobody's", max_staleness_ms=LONG_MS)
        with patch("lithify.gc.reachable.BOUNDARY_STEP_MIN", 2):
            collects(site, process, number)
        try:
            found = part.get(KEYS[0], max_staleness_ms=LONG_MS)
        except SnapshotExpired as gone:
            raise Violation(f"a get is told of its head, which is no promise of it: {gone}") from gone
        if found is None or found.value != b"to be collected 1":
            raise Violation(f"a get finds {found}, and another was appended last")
        site.world.held("how old a get may be")

    return main
