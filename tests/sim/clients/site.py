"""What the actors of one history share."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lithify.log.follow import OffsetReset
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.errors import AccessDenied, CommitUnknown, Unavailable
from lithify.store.port import Pause
from tests.sim.cast import Violation
from tests.sim.clients.groups import Groups, Opening
from tests.sim.clients.truth import KEYS, Row, Truth, partition_of_key
from tests.sim.clients.world import ClientWorld, Process

if TYPE_CHECKING:
    from tests.sim.clients.senders import Source

__all__ = ["LATER_MS", "OUTAGES", "TOPIC", "WITHIN_MS", "Enough", "Site"]

TOPIC = "t"
OUTAGES = (Unavailable, CommitUnknown)  # what a store that fails may do to anybody
WITHIN_MS = 10_000  # clients see growth within ten seconds
LATER_MS = 2 * (WITHIN_MS + 2_000)  # a pause of half of this is longer, also by clocks that tell whole seconds
CLOCKS_ERR_MS = 8_000  # two clocks of the store, each told in whole seconds, and a reply on its way


class Enough:
    """What ends an iteration: it was asked so often."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


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

    def new(self, value: bytes) -> Row:
        """What somebody is about to append."""
        self.truth.known.add(value)
        return Row(KEYS[0], value)

    def rest(self, process: Process, times: float = 1) -> None:
        say = process.actor.say
        process.driver.answer(Pause(1 + int(times * self.rest_ms * (0.2 + say.random()))))

    @contextmanager
    def outages(self, met: str = "outage met") -> Generator[None]:
        """The store may fail whoever is within. It denies nobody access here."""
        try:
            yield
        except AccessDenied as denied:
            raise Violation(f"access is denied, which this store never did: {denied}") from denied
        except OUTAGES as error:
            self.world.counts[f"{met}: {type(error).__name__}"] += 1

    def opens(self, process: Process, name: str, reset: OffsetReset, *, begins: OffsetReset | None = None) -> Opening:
        """Before each call that opens a consumer."""
        return self.groups.opens(name, process.actor.author, reset, begins)

    def fenced(self, opening: Opening) -> None:
        if not self.groups.was_replaced(opening):
            raise Violation(f"{opening.name!r} is fenced, and no later instance was opened")
        self.world.counts["consumer fenced"] += 1

    def is_as_told(self, number: int, offset: int, row: Row) -> None:
        """The row was acknowledged there."""
        found = self.truth.logs[number].rows.get(offset)
        if found != row:
            raise Violation(f"{row} is acknowledged at {offset} of partition {number}, where there is {found}")

    def is_refused(self, row: Row) -> None:
        """The row was certainly not appended, so that it never comes."""
        self.world.counts["refused"] += 1
        assert row.value is not None
        if row.value in self.truth.found_at:
            raise Violation(f"{row} was refused, and is there")
        self.truth.refused.add(row.value)

    def is_its_partition(self, process: Process, key: bytes, number: int, since_ms: int, slept_ms: int) -> None:
        """By a count that held within ten seconds before the call."""
        late_ms = WITHIN_MS + CLOCKS_ERR_MS + slept_ms
        if number not in {partition_of_key(key, count) for count in self.truth.counts_since(since_ms - late_ms)}:
            raise Violation(f"{process.actor.name} appends {key!r} to partition {number}, where it went long ago")
        self.world.held("the partition of an append")
