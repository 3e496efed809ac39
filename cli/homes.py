"""`lithify home`: where the segments of a topic are, and moving them there and back (docs/homes.md)."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from lithify.admin.at_once import asked_at_once, done_at_once
from lithify.cli.compactions import partitions
from lithify.cli.confirming import confirm
from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, count_text, size_text
from lithify.cli.submitted import request, tell_submitted
from lithify.cli.terminal import warn
from lithify.manifest.homes import told
from lithify.manifest.words import counted
from lithify.store.apart import Fault
from lithify.store.errors import ErrorKind, InvalidRequest

if TYPE_CHECKING:
    from lithify.admin.homes import PartitionHomes
    from lithify.compactor.info import CompactionInfo

__all__ = ["home"]

_partition = click.option("--partition", type=int, help="Only this partition. Default: all.")
_NOTHING_TO_DO = (ErrorKind.INVALID_REQUEST, ErrorKind.ALREADY_EXISTS)
_wait = click.option("--wait", is_flag=True, help="Wait until it has ended, and show how far it is.")


@click.group(cls=Group)
def home() -> None:
    """See in which homes a topic's segments are, and move them to the cold home or back."""


@command(home)
@click.argument("topic", required=False)
@_partition
def status(invocation: Invocation, topic: str | None, partition: int | None) -> int:
    """Show how much of TOPIC, or of every topic that has a cold home, is in which home, and what moves next."""
    if topic is None:
        if partition is not None:
            raise InvalidRequest("--partition is of one topic: name it")
        found, faults = _of_all(invocation)
    else:
        admin = invocation.admin()
        found = asked_at_once(lambda number: admin.homes(topic, number), partitions(invocation, topic, partition))
        faults = ()
    output = invocation.output
    known = bool(found) or not faults  # else "everything is in the warehouse" would be said of what is not known
    output.answer(found, lambda: _show(output, found) if known else None)
    return tell_faults(faults)


def _of_all(invocation: Invocation) -> "tuple[list[PartitionHomes], tuple[Fault, ...]]":
    """The partitions that have another home than the warehouse, and why some cannot be read."""
    admin = invocation.admin()
    topics = admin.topics()
    if not (topics.items or topics.failed):
        invocation.require_begun()
    places = [(each.topic, number) for each in topics.items for number in range(each.partitions)]
    found, faults = done_at_once(lambda place: admin.homes(*place), places)
    return [each for each in found if each.cold_home or len(each.homes) > 1], (*topics.faults, *faults)


def _show(output: Output, found: "Sequence[PartitionHomes]") -> None:
    columns = ("partition", "home", "#segments", "#records", "#size", "#replaced")
    rows = [
        (
            *(f"{each.topic}/{each.partition}", told(use.home), use.segments, count_text(use.records)),
            *(size_text(use.bytes), size_text(use.retired_bytes) if use.retired_segments else ""),
        )
        for each in found
        for use in each.homes
    ]
    if not found:
        output.line("everything is in the warehouse; no topic has a cold home")
        return
    output.table(columns, rows, less=("records", "replaced"), lead="home")
    output.lines(_next(found))


def _next(found: "Sequence[PartitionHomes]") -> Iterator[str]:
    for each in found:
        where = f"{each.topic}/{each.partition}"
        explains = f"lithify compaction explain {each.topic} --partition {each.partition}"
        for state in each.away:
            yield f"{where}: {told(state.home)} is away: {state.away}"
        if each.moving and each.requested:
            yield f"{where}: a move is requested, and waits for a compactor: '{explains}'"
        elif each.moving:
            yield f"{where}: segments are moving: 'lithify compaction status {where}/{each.moving}'"
        elif each.due_segments:
            size, costs = size_text(each.due_bytes), f" for {each.due_price.text}" if each.due_price else ""
            moves = f"{counted(each.due_segments, 'segment')} ({size}) may move to {told(each.cold_home)}"
            yield f"{where}: {moves}{costs}"
        else:
            yield f"{where}: nothing moves: {each.why_none}"
        if each.failed and not each.moving:
            yield f"{where}: the latest move failed: {each.failed}"


@command(home)
@click.argument("topic")
@_partition
@_wait
def relocate(invocation: Invocation, topic: str, partition: int | None, wait: bool) -> int:
    """Request that all of TOPIC but its L0 segments moves to its cold home, whatever its age.

    What is old enough moves by itself, while a compactor runs. With --wait the exit code is 0 if all of it completed,
    else 1.
    """
    admin = invocation.admin()
    return _moved(invocation, admin.relocate, topic, partition, wait=wait)


@command(home)
@click.argument("topic")
@_partition
@_wait
def recall(invocation: Invocation, topic: str, partition: int | None, wait: bool) -> int:
    """Request that all of TOPIC comes back to the warehouse.

    What the topic's configuration calls old goes again. To keep it here, first run
    'lithify topic alter TOPIC --unset local.retention.ms' (and local.retention.bytes).
    """
    admin = invocation.admin()
    config = admin.topic(topic).config
    goes_again = any(config.get(name, "-2") != "-2" for name in ("local.retention.ms", "local.retention.bytes"))
    warning = (
        "warning: what the topic's configuration calls old will go again: unset local.retention.ms and "
        "local.retention.bytes"
    )
    return _moved(invocation, admin.recall, topic, partition, wait=wait, warning=warning if goes_again else "")


def _moved(
    invocation: Invocation,
    move: "Callable[[str, int], CompactionInfo]",
    topic: str,
    partition: int | None,
    *,
    wait: bool,
    warning: str = "",
) -> int:
    """Request it of every partition in which there is something to move, and nothing asks for it yet; if there is none,
    the first says why. `warning`: what to say if there is one."""
    numbers = partitions(invocation, topic, partition)
    infos, faults = request(move, topic, numbers)
    if warning and infos:
        warn(warning)
    failed = [fault for fault in faults if fault.kind not in _NOTHING_TO_DO]
    return tell_submitted(invocation, infos, failed if infos or failed else faults, wait=wait)


@command(home)
@click.argument("topic")
@click.option("--yes", is_flag=True, help="Do not ask.")
def adopt(invocation: Invocation, topic: str, yes: bool) -> None:
    """Make this warehouse the owner of TOPIC's segments in its cold home.

    For a warehouse that was moved to another place or URL, or restored from a backup. The owner deletes there what it
    does not refer to, so never do this in a copy of a warehouse that is still in use.
    """
    admin = invocation.admin()
    admin.topic(topic)  # a mistake is named before anything is asked
    question = f"Is the warehouse that used the cold home of {topic} before gone for good?"
    confirm(yes, question, f"topic {topic}: the owner of a home deletes there")
    adopted = admin.adopt_home(topic)
    value = {"topic": topic, "homes": adopted}
    names = ", ".join(map(told, adopted))
    invocation.output.answer(value, lambda: invocation.output.line(f"{topic}: this warehouse owns {names} now"))
