"""What `lithify compaction submit`, and moves between homes, say of what was requested, and how they wait for it."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lithify.admin.at_once import asked_at_once, done_at_once
from lithify.cli.failures import FAILED, tell_faults
from lithify.cli.invocation import Invocation
from lithify.cli.output import Output, count_text, size_text, time_text
from lithify.cli.terminal import warn
from lithify.manifest.words import counted
from lithify.store.apart import Fault, attempt

if TYPE_CHECKING:
    from lithify.admin.client import Admin
    from lithify.compactor.info import CompactionInfo

__all__ = ["request", "show_compactions", "tell_submitted"]

_LOOKS_IN_VAIN = 2  # a second apart


def request(
    ask: "Callable[[str, int], CompactionInfo]", topic: str, numbers: Iterable[int]
) -> "tuple[list[CompactionInfo], list[Fault]]":
    """What was requested of these partitions, and why it could not be in others."""
    try:
        return done_at_once(partial(ask, topic), numbers)
    except KeyboardInterrupt:
        warn(f"some of it may have been requested: 'lithify compaction list {topic} --active' shows it")
        raise


def tell_submitted(
    invocation: Invocation, infos: "Sequence[CompactionInfo]", faults: Sequence[Fault], *, wait: bool
) -> int:
    """Show what was requested, in partitions of one topic, and why it could not be in others; with `wait`, wait for its
    end. Returns the exit code. Raises the first of `faults` if nothing was requested."""
    if not infos:
        error = faults[0].error()
        if len(faults) > 1:
            error.add_note(f"{counted(len(faults) - 1, 'other partition')} failed, too")
        raise error
    admin, output = invocation.admin(), invocation.output
    try:
        texts = asked_at_once(partial(_submitted, admin), infos)
    except KeyboardInterrupt:
        _tell_what_goes_on(infos)
        raise
    if not wait:
        output.answer(infos, lambda: output.lines(texts))
        return tell_faults(faults)
    if not output.as_json:
        output.lines(texts)
    failed = tell_faults(faults)
    ended = _waited(admin, output, infos)
    output.answer(ended, lambda: show_compactions(output, ended))
    return failed or (0 if all(each.status == "completed" for each in ended) else FAILED)


def _waited(admin: "Admin", output: Output, infos: "Sequence[CompactionInfo]") -> "list[CompactionInfo]":
    """The bar is of all compactions together; each counts a hundred."""
    from lithify.admin.waiting import finished

    shown = looks = 0
    with output.progress("compacting", 100 * len(infos)) as tick:

        def tell(now: "Sequence[CompactionInfo]") -> None:
            nonlocal shown, looks
            looks += 1
            if looks == _LOOKS_IN_VAIN and all(each.status == "submitted" for each in now):
                warn(_waits_for_whom(admin, now))
            done = sum(100 if each.completed_at else int(each.progress.completion_percentage) for each in now)
            tick(done - shown)
            shown = done

        try:
            return finished(admin, infos, tell)
        except KeyboardInterrupt:
            _tell_what_goes_on(infos)
            raise


def _tell_what_goes_on(infos: "Sequence[CompactionInfo]") -> None:
    first = infos[0].id
    more = "" if len(infos) == 1 else f" (and {len(infos) - 1} more: 'lithify compaction list')"
    warn(
        f"only the waiting ends: 'lithify compaction status {first}' shows how far it is, and 'lithify compaction "
        f"cancel {first}' ends it{more}"
    )


def _waits_for_whom(admin: "Admin", infos: "Sequence[CompactionInfo]") -> str:
    """Nobody has accepted `infos` yet. A compactor that runs may take its time: it looks every 15 s, or more rarely
    where the partition rests."""
    topic, partition, _ = infos[0].id.split("/")
    owner = admin.explain(topic, int(partition)).compactor
    start = "if none is running, start one: 'lithify compactor run'"
    if owner is None:
        return f"warning: no compactor has ever worked on {topic}/{partition}; {start}"
    if owner.at_work:
        return f"no compactor has accepted it yet; {owner.name} is at work on {topic}/{partition}"
    return f"no compactor has accepted it yet; the latest on {topic}/{partition} was {owner.name}; {start}"


def _submitted(admin: "Admin", info: "CompactionInfo") -> str:
    topic, partition, _ = info.id.split("/")
    explained = attempt(lambda: admin.explain(topic, int(partition)))  # that it was requested is said in any case
    waits = "" if isinstance(explained, Fault) or explained.action != "wait" else f", and waits: {explained.reason}"
    return f"{info.id} {info.status}{_moves(info)}{waits}"


def _moves(info: "CompactionInfo") -> str:
    price = info.price
    if price is None:
        return ""
    return f": moves {counted(price.segments, 'segment')} ({size_text(price.bytes)}) for {price.text}"


def show_compactions(output: Output, infos: "Iterable[CompactionInfo]") -> None:
    rows = [
        (
            *(info.id, info.kind, _brief(info), f"{info.progress.completion_percentage:g}"),
            *(count_text(info.counts.rows_in), count_text(info.counts.rows_out)),
            *(time_text(info.created_at), info.error.reason if info.error else info.failing or info.reason),
        )
        for info in infos
    ]
    columns = ("id", "kind", "status", "#%", "#rows in", "#rows out", "created", "reason")
    output.table(columns, rows, less=("created", "rows in", "rows out"), lead="id", prose=True)


def _brief(info: "CompactionInfo") -> str:
    return f"{info.status}, to be cancelled" if info.cancel_requested else info.status
