"""What the actors of one history share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.errors import AccessDenied, CommitUnknown, SnapshotExpired, Unavailable
from lithify.store.port import Pause
from tests.sim.cast import Violation
from tests.sim.clients.groups import Groups
from tests.sim.clients.truth import Row, Truth
from tests.sim.clients.world import ClientWorld, Process

if TYPE_CHECKING:
    from tests.sim.clients.senders import Source

__all__ = ["TOPIC", "TRANSIENT", "Site"]

TOPIC = "t"
TRANSIENT = (Unavailable, AccessDenied, CommitUnknown, SnapshotExpired)


@dataclass
class Site:
    world: ClientWorld
    truth: Truth
    groups: Groups
    rest_ms: int
    grace_ms: int
    expires: bool  # retention bounds the log
    sources: list["Source"] = field(default_factory=list)

    def open(self, process: Process) -> Topic:
        return Warehouse(process.driver).topic(TOPIC)

    def rest(self, process: Process, times: float = 1) -> None:
        say = process.actor.say
        process.driver.answer(Pause(1 + int(times * self.rest_ms * (0.2 + say.random()))))

    def told(self, number: int, offset: int, row: Row) -> None:
        """Acknowledged."""
        found = self.truth.shelves[number].rows.get(offset)
        if found != row:
            raise Violation(f"{row} is acknowledged at {offset} of partition {number}, where there is {found}")
