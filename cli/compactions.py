"""`lithify compaction`: submit, status, list, cancel, explain, retry."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from lithify.admin.partitions import Answers
from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, count_text, counted_text, size_text, time_text
from lithify.cli.submitted import request, show_compactions, tell_submitted
from lithify.cli.terminal import warn
from lithify.manifest.words import counted, span_text
from lithify.store.errors import InvalidRequest
from lithify.store.request_counts import RequestCounts

if TYPE_CHECKING:
    from lithify.admin.client import Admin
    from lithify.admin.compactions import Retried
    from lithify.admin.explain import Explanation
    from lithify.compactor.info import CompactionInfo
    from lithify.manifest.jobs import Estimate, MergeCounts, Status

__all__ = ["ACTION_WORDS", "compaction", "owner_text", "partitions", "show"]

_PASSED_SHOWN = 20
ACTION_WORDS = {  # where the name of an action is a word of the protocol
    "settle": "note how a job ended",
    "resume": "continue a job",
    "admit": "decide on a request",
    "propose": "start a job",
}
_partition = click.option("--partition", type=int, help="Only this partition.")


@click.group(cls=Group)
def compaction() -> None:
    """Request compactions, follow their progress, and see why nothing is compacted."""


def partitions(invocation: Invocation, topic: str, partition: int | None) -> list[int]:
    """The partitions of `topic`, or the one that was named."""
    known = invocation.admin().topic(topic)
    return list(range(known.partitions)) if partition is None else [partition]


@command(compaction)
@click.argument("topic")
@_partition
@click.option("--full", is_flag=True, help="Compact everything that is old enough.")
@click.option(
    "--sources", metavar="ID,ID", help="Compact these L0 segments and runs (listed by 'lithify manifest show')."
)
@click.option("--wait", is_flag=True, help="Wait until it has ended, and show how far it is.")
def submit(
    invocation: Invocation, topic: str, partition: int | None, full: bool, sources: str | None, wait: bool
) -> int:
    """Request a compaction of TOPIC. A running compactor accepts or refuses it.

    With --wait the exit code is 0 if all of it completed, else 1. Ctrl-C ends the waiting, not the compaction.
    """
    if full == (sources is not None):
        raise InvalidRequest("give either --full or --sources ID,ID")
    numbers = partitions(invocation, topic, partition)
    if sources is not None and len(numbers) > 1:
        raise InvalidRequest(f"--sources applies to one partition: choose one of the {len(numbers)} with --partition")
    chosen = None if sources is None else [part.strip() for part in sources.split(",") if part.strip()]
    admin = invocation.admin()
    if full:
        _tell_equal(admin, topic, partition)
    requested = "full" if chosen is None else chosen
    infos, faults = request(lambda topic, number: admin.submit(topic, number, requested), topic, numbers)
    return tell_submitted(invocation, infos, faults, wait=wait)


def _tell_equal(admin: "Admin", topic: str, partition: int | None) -> None:
    """Name the requests that ask for the same already, and that no compactor has accepted yet."""
    for info in admin.readable_compactions(topic, partition, ("submitted",)).items:
        if not info.total_sources and not info.destination:  # no sources are named, and no home
            warn(f"{info.id} asks for the same, and no compactor has accepted it yet; yours comes after it")


@command(compaction)
@click.argument("compaction_id", metavar="ID")
def status(invocation: Invocation, compaction_id: str) -> None:
    """Show the status of compaction ID (topic/partition/job)."""
    info = invocation.admin().compaction(compaction_id)
    output = invocation.output
    output.answer(info, lambda: show(output, info))


def show(output: Output, info: "CompactionInfo") -> None:
    progress, counts = info.progress, info.counts
    rows = [
        ("id", info.id),
        ("kind", info.kind or "not admitted yet"),
        ("status", _status_text(info)),
        ("reason", f"{info.origin}: {info.reason}" if info.reason else info.origin),
        *([("chosen for", info.chosen)] if info.chosen else []),
        ("sources", _sources_text(info)),
        (
            "progress",
            f"{progress.completion_percentage:g} %, {counted(progress.output_segments_written, 'segment')} written",
        ),
        ("rows", f"{count_text(counts.rows_in)} in, {count_text(counts.rows_out)} out"),
        ("dropped", _dropped_text(counts)),
        ("bytes", f"{size_text(counts.bytes_read)} read, {size_text(counts.bytes_written)} written"),
        ("requests", f"{_requests_text(counts.gets, counts.puts)}, by its workers"),
        *([("memory", f"{size_text(memory)} in the largest worker")] if (memory := info.peak_memory_bytes) else []),
        *([("price", info.price.text)] if info.price else []),
        *_foretold(info.estimate),
        ("attempts", info.last_attempt),
        ("created", time_text(info.created_at)),
        ("started", time_text(info.started_at)),
        ("completed", time_text(info.completed_at)),
    ]
    if progress.estimated_completion is not None:
        rows.append(("expected end", time_text(progress.estimated_completion)))
    if info.error is not None:
        rows.append(("error", f"{info.error.category}: {info.error.reason}"))
    elif (failed := info.latest_failure) is not None and failed.error is not None:
        ended = time_text(failed.ended_at_ms)
        rows.append(("latest failure", f"at {ended}, {failed.error.category}: {failed.error.reason}"))
    output.table(("", ""), rows, prose=True)


def _status_text(info: "CompactionInfo") -> str:
    if info.cancel_requested:
        return f"{info.status}, cancellation requested"
    return info.status if info.phase == "done" or info.status == "submitted" else f"{info.status}, {info.phase}"


def _sources_text(info: "CompactionInfo") -> str:
    if not info.total_sources and info.status == "submitted":
        return "all that is old enough; a compactor chooses"
    return f"{info.total_sources}: {', '.join(info.sources[:4])}{', …' if info.total_sources > 4 else ''}"


def _foretold(known: "Estimate | None") -> "Iterator[tuple[str, str]]":
    if known is not None:
        rows, size = counted_text(known.output_rows, "row"), size_text(known.output_bytes)
        yield "expected", f"{rows} and {size} out, estimated from {known.basis}"
        memory = size_text(known.peak_memory_bytes)
        yield "", f"{_requests_text(known.gets, known.puts)}, by its workers; {memory} in the largest"
        yield "", f"{_requests_text(known.own_gets, known.own_puts)}, by the compactor"


def _dropped_text(counts: "MergeCounts") -> str:
    reasons = (
        (counts.superseded, "superseded"),
        (counts.expired_tombstones, "expired tombstones"),
        (counts.below_floor, "below the log start"),
        (counts.keyless, "without a key"),
    )
    return ", ".join(f"{count_text(count)} {why}" for count, why in reasons if count) or "nothing"


def _requests_text(gets: int, puts: int) -> str:
    cost_usd = RequestCounts(gets=gets, puts=puts).cost_usd
    return f"{counted(gets, 'GET')}, {counted(puts, 'PUT')}: {cost_usd:.6f} USD at S3's list price"


@command(compaction, "list")
@click.argument("topic", required=False)
@_partition
@click.option("--active", is_flag=True, help="Only submitted and running compactions.")
def list_(invocation: Invocation, topic: str | None, partition: int | None, active: bool) -> int:
    """List active and remembered compactions of TOPIC, or of the whole warehouse, oldest first in each partition."""
    statuses: list[Status] = ["submitted", "in_progress"] if active else []
    found = invocation.admin().readable_compactions(topic, partition, statuses)
    if found.faults and topic is not None and partition is not None:
        raise found.faults[0].error()
    if not found.items and topic is None:
        invocation.require_begun()
    output = invocation.output
    output.answer(found.items, lambda: show_compactions(output, found.items))
    return tell_faults(found.faults)


@command(compaction)
@click.argument("compaction_id", metavar="ID")
def cancel(invocation: Invocation, compaction_id: str) -> None:
    """Request that compaction ID be cancelled; its compactor ends it within about ten seconds. Refused if it has
    completed or failed."""
    info = invocation.admin().cancel(compaction_id)
    output = invocation.output
    told = "is cancelled" if info.status == "cancelled" else f"cancellation requested (now {info.status})"
    output.answer(info, lambda: output.line(f"{info.id}: {told}"))


@command(compaction)
@click.argument("topic")
@_partition
def explain(invocation: Invocation, topic: str, partition: int | None) -> int:
    """Show what a compactor would do next in TOPIC, and why not more."""
    admin = invocation.admin()
    found = admin.explain_topic(topic) if partition is None else Answers(items=(admin.explain(topic, partition),))
    output = invocation.output
    output.answer(found.items, lambda: _explain(output, found.items))
    return tell_faults(found.faults)


def _explain(output: Output, found: "Iterable[Explanation]") -> None:
    for each in found:
        what = f"{each.debt.text}: " if each.debt else ""
        output.line(f"{each.topic}/{each.partition}: {ACTION_WORDS.get(each.action, each.action)}: {what}{each.reason}")
        if each.beside:
            output.line(
                f"  beside that job: {ACTION_WORDS.get(each.beside.action, each.beside.action)}: {each.beside.reason}"
            )
        for line in _details(each):
            output.line(f"  {line}")
        _show_inputs(output, each)
        output.table(("not chosen", "why"), [(it.what, it.reason) for it in each.passed[:_PASSED_SHOWN]], prose=True)
        if len(each.passed) > _PASSED_SHOWN:
            output.line(f"  and {len(each.passed) - _PASSED_SHOWN} more: --json shows all")


def _show_inputs(output: Output, each: "Explanation") -> None:
    rows = [
        (it.id, it.kind, it.segments, count_text(it.rows), size_text(it.bytes), it.min_offset, it.max_offset)
        for it in each.inputs[:_PASSED_SHOWN]
    ]
    if rows:
        columns = ("input", "kind", "#segments", "#rows", "#size", "#from offset", "#to")
        output.table(columns, rows, less=("segments", "size"), lead="input")
    if len(each.inputs) > _PASSED_SHOWN:
        output.line(f"  and {len(each.inputs) - _PASSED_SHOWN} more: --json shows all, with the keys at their ends")


def _details(each: "Explanation") -> "Iterator[str]":
    foretold, owed = each.estimate, each.owed
    if foretold is not None:
        reads = f"{counted(len(each.sources), 'input')}" if each.sources else "its inputs"
        about = "" if each.ranges_exact or each.action == "resume" else "about "
        yield (
            f"reads {reads}: {counted(foretold.input_segments, 'segment')}, {size_text(foretold.input_bytes)}, "
            f"{counted_text(foretold.input_rows, 'row')}, in {about}{counted(foretold.ranges, 'key range')}"
        )
        yield (
            f"expects {size_text(foretold.output_bytes)} and {counted_text(foretold.output_rows, 'row')}, "
            "estimated from "
            f"{foretold.basis}; {size_text(foretold.peak_memory_bytes)} of memory in a worker"
        )
        gets, puts = foretold.gets + foretold.own_gets, foretold.puts + foretold.own_puts
        own = f"{counted(foretold.own_gets, 'GET')} and {counted(foretold.own_puts, 'PUT')}"
        yield f"about {_requests_text(gets, puts)}; of these the compactor makes {own}, and its workers the rest"
    if each.price is not None:
        yield f"costs {each.price.text}"
    if each.cold is not None:
        price = each.cold
        yield (
            f"takes {counted(price.segments, 'segment')} ({size_text(price.bytes)}) from cold homes: "
            f"{price.usd:.6f} USD at list prices ({price.retrieval_usd:.6f} retrieval, {price.early_usd:.6f} for their "
            "minimum storage duration)"
        )
    if owed.clean_bytes or owed.dirty_bytes or owed.young_bytes:
        oldest = "" if owed.oldest_dirty_ms is None else f"; oldest dirty record: {time_text(owed.oldest_dirty_ms)}"
        yield (
            f"clean {size_text(owed.clean_bytes)}, dirty {size_text(owed.dirty_bytes)} (ratio {owed.dirty_ratio:.2f}), "
            f"too young {size_text(owed.young_bytes)}{oldest}"
        )
    yield (
        f"the log starts at offset {owed.log_start_offset}; below it lie {counted(owed.droppable_segments, 'segment')} "
        f"({size_text(owed.droppable_bytes)}); compactor: {owner_text(each)}"
    )


def owner_text(each: "Explanation") -> str:
    """Who compacts, and what of that is known."""
    from lithify.compactor.policy import LEASE_MS

    owner = each.compactor
    if owner is None:
        return "none yet"
    if owner.at_work:
        return f"{owner.name}, at work"
    seen = ""
    if owner.seen_ms is not None:
        seen = f", its latest claim or job {span_text(max(each.at_ms - owner.seen_ms, 0))} ago"
    if owner.left:
        return f"none now; {owner.name} left{seen}"
    taken = f"; a standby takes over work that it leaves undone for {span_text(LEASE_MS)}"
    return f"{owner.name}{seen}{'' if each.action == 'wait' else taken}"


@command(compaction)
@click.argument("topic")
@_partition
def retry(invocation: Invocation, topic: str, partition: int | None) -> int:
    """Lift the quarantine of TOPIC's partitions whose damaged segment has been restored or is no longer in the log."""
    admin = invocation.admin()
    found = admin.retry_topic(topic) if partition is None else Answers(items=(admin.retry(topic, partition),))
    output = invocation.output
    output.answer(found.items, lambda: output.lines(map(_retried, found.items)))
    return tell_faults(found.faults)


def _retried(each: "Retried") -> str:
    where = f"{each.topic}/{each.partition}"
    done = f"{where}: the quarantine is lifted; the next pass continues"
    return done if each.lifted else f"{where} was not quarantined"
