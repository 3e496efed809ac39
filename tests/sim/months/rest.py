"""What must be so once nobody writes any more, and all lags have passed: nothing is owed, nothing is left behind."""

from collections.abc import Iterator

from tests.sim.judge.debts import owed
from tests.sim.judge.layout import load
from tests.sim.judge.remains import left_over
from tests.sim.months.ledger import Ledger, Partition

__all__ = ["at_rest"]


def at_rest(ledger: Ledger) -> Iterator[str]:
    for partition in ledger.partitions.values():
        head = ledger.head(partition)
        if not head:
            continue
        if not head.get("sealed"):
            _, config, _ = ledger.settings[partition.topic]
            yield from (f"{partition.root} owes: {debt}" for debt in owed(head, config, ledger.site.clock.now_ms))
            yield from _claims(ledger, partition)
        yield from _left(ledger, partition)


def _claims(ledger: Ledger, partition: Partition) -> Iterator[str]:
    """Who claims has come, or saw another go, or was not told what became of a commit: two compactors that are there do
    not fence each other in turn (RFC 0014)."""
    site = ledger.site
    most = 2 * (site.daemons_begun + site.clock.counts["outage"]) + site.bucket.unknown
    if partition.claims > most:
        yield f"{partition.root} was claimed {partition.claims} times, for {most} reasons at most"


def _left(ledger: Ledger, partition: Partition) -> Iterator[str]:
    head = ledger.head(partition)
    boundary = partition.boundaries[-1][1] if partition.boundaries else None
    pinned = [value for pin in partition.pins if (value := ledger.manifest(partition, pin)) is not None]
    state = ledger.site.bucket.find(f"{partition.root}compactor/{partition.last('compactor'):020d}.compactor")
    history = [] if state is None else load(state.body).get("history", [])
    left = left_over(ledger.site.bucket.keys(partition.root), partition.root, head, pinned, boundary, history)
    if left is not None:
        yield left
