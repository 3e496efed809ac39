"""Opening a named consumer: first every check that may refuse it, then the commit that takes its name over
(docs/rfcs/0009)."""

import contextlib
from dataclasses import dataclass

from lithify.log.consumer import Consumer, ConsumerConfig
from lithify.log.follow import Follower, SnapshotOf, placed
from lithify.log.positions import RACES_MAX, Holds, look, take
from lithify.manifest.consumers import TakePosition, find_consumer
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import NotFound, Unavailable

__all__ = ["Opening", "Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """How a consumer begins. `rebuilt_to`: it begins there, with the state of a scan before that offset. `added`: the
    partition was added after the consumer first read its topic, so without a position it begins at offset 0. `holds`
    raises if the instance that opens an added partition was replaced."""

    rebuilt_to: int | None = None
    added: bool = False
    holds: Holds | None = None


class Opening:
    """A consumer about to be opened. `look` makes all checks and changes nothing. `take` takes over the name, and after
    that commit asks nothing of the store: otherwise the name might be taken, and no instance have it. To open several
    partitions, look at all before taking one."""

    def __init__(
        self,
        driver: Driver,
        keys: PartitionKeys,
        snapshot_of: SnapshotOf,
        name: str,
        config: ConsumerConfig,
        start: Start,
    ) -> None:
        self._driver = driver
        self._files = PartitionFiles(keys)
        self._snapshot_of = snapshot_of
        self._name = name
        self._config = config
        self._start = start
        self._found: TakePosition | None = None

    def look(self) -> None:
        """Raises OffsetOutOfRange if this consumer could not begin, NotFound if the topic was deleted."""
        self._found = self._driver.run(look(self._files, self._name, self._beginning, self._start.holds))

    def take(self) -> Consumer:
        """Take the name over.

        SUBTLE! This commits the old position, not `rebuilt_to`: the scan is read only later, and if this instance dies
        over it, it must not leave a position for which its successor has no state. Test:
        tests/log/test_scan_and_follow.py
        """
        if self._start.holds is not None:
            taken = self._driver.run(take(self._files, self._name, self._beginning, self._start.holds))
        else:
            taken = self._take()
        return self._consumer(taken)

    def _take(self) -> ConsumerPosition:
        """As `look` found it. A name deleted since then is a new name: it begins where the configuration says."""
        for _ in range(RACES_MAX):
            if self._found is None:
                self.look()
            assert self._found is not None
            with contextlib.suppress(NotFound):  # the position was deleted, or the topic: `look` raises then
                return self._driver.run(self._files.manifest.commit(self._found)).result
            self._found = None
        raise Unavailable(f"{self._files.name}: consumer {self._name!r} is deleted again and again; who does that?")

    def _consumer(self, taken: ConsumerPosition) -> Consumer:
        rebuilt_to = self._start.rebuilt_to
        follower = Follower(
            self._driver,
            self._files,
            self._snapshot_of,
            taken.offset if rebuilt_to is None else rebuilt_to,
            self._config.auto_offset_reset,
            resumed=True,
            added=self._start.added,
            manifest=self._files.manifest.seen.value,  # the manifest made by that commit
        )
        return Consumer(self._driver, self._files, follower, taken, self._config, rebuilt_to)

    def _beginning(self, head: Manifest) -> int | None:
        """Where the name begins if it has no position by then; None: it has one in `head`, and begins nowhere else.
        Raises OffsetOutOfRange if it cannot begin there, or at its position.

        SUBTLE! 1. This reads `known` at offset 5. 2. Somebody deletes the name. 3. The commit would make it anew at 5,
        and the records before that would be missed in silence. Test: tests/log/test_one_after_the_other.py
        """
        known = find_consumer(head, self._name)
        if self._start.added and (known is None or known.offset == 0):
            return 0
        wanted = self._start.rebuilt_to
        if wanted is None and known is not None:
            wanted = known.offset
        snapshot = self._snapshot_of(head)
        floor = snapshot.log_start_offset
        where = f"{self._files.name}: consumer {self._name!r}"
        begin = placed(where, wanted, floor, snapshot.next_offset, self._config.auto_offset_reset)
        if self._start.rebuilt_to is not None:
            return floor
        return begin if known is None else None
