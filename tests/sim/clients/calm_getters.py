"""What whoever gets from a head of a moment ago is promised once that moment is over (docs/rfcs/0025)."""

from collections.abc import Callable

from lithify.log.record import Record
from lithify.store.port import Pause
from tests.sim.cast import Violation
from tests.sim.clients.site import LATER_MS, Site
from tests.sim.clients.truth import KEYS, partition_of_key
from tests.sim.clients.world import Process

__all__ = ["gets_again_later"]

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
