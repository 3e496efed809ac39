"""`lithify gc run`: one collection of garbage, each object with its reason; or for ever."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lithify.cli.failures import code_of
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, count_text, counted_text, size_text, time_text
from lithify.cli.settings import option
from lithify.manifest.words import span_text

if TYPE_CHECKING:
    from lithify.gc.collector import GcReport

__all__ = ["gc"]


@click.group(cls=Group)
def gc() -> None:
    """Delete objects that nothing can read any more."""


@command(gc)
@click.option("--once", is_flag=True, help="One pass. Default: run until stopped.")
@click.option("--dry-run", is_flag=True, help="One pass that deletes nothing; it shows what would be deleted, and why.")
@click.option("--sweep", is_flag=True, help="One pass that also lists every object and deletes orphans.")
@option("gc.grace.ms")
@option("gc.interval.ms")
@option("gc.rest.ms")
@option("gc.sweep.interval.ms")
def run(
    invocation: Invocation,
    once: bool,
    dry_run: bool,
    sweep: bool,
    gc_grace_ms: int,
    gc_interval_ms: int,
    gc_rest_ms: int,
    gc_sweep_interval_ms: int,
) -> int:
    """Delete what was replaced at least a grace period ago, unless a checkpoint pins it."""
    from lithify.admin.garbage import check_grace
    from lithify.cli.running import make_collector, run_parts

    check_grace(gc_grace_ms, "--gc-grace-ms")
    if not (once or dry_run or sweep):
        warehouse = invocation.warehouse()
        collector = make_collector(warehouse, gc_grace_ms, interval_ms=gc_interval_ms, rest_ms=gc_rest_ms)
        run_parts(invocation, collector=(collector, gc_interval_ms, gc_sweep_interval_ms))
        return 0
    with invocation.output.progress("collecting"):
        report = invocation.admin().gc(dry_run=dry_run, sweep=sweep, grace_ms=gc_grace_ms)
    if not report.partitions:
        invocation.require_begun()
    output = invocation.output
    output.answer(report, lambda: _show(output, report, gc_grace_ms))
    return code_of(report)


def _show(output: Output, report: "GcReport", grace_ms: int) -> None:
    rows = [
        (
            *(
                part.topic,
                part.topic_id,
                part.partition,
                len(part.deleted),
                size_text(sum(g.bytes for g in part.deleted)),
            ),
            *(
                part.waiting,
                part.checkpoints_expired,
                part.boundary,
                part.fault and part.fault.text,
            ),
        )
        for part in report.partitions
    ]
    columns = ("topic", "topic id", "#partition", "#objects", "#size", "#waiting", "#checkpoints expired")
    less = ("boundary", "topic id", "checkpoints expired")
    output.table((*columns, "#boundary", "error"), rows, less=less, lead="topic", prose=True)
    listed = list(_listed(report))
    if listed:
        output.table(("", "object", "#size", "reason"), listed, lead="object", prose=True)
    verb = "would delete" if report.dry_run else "deleted"
    output.line(f"{verb} {counted_text(len(report.deleted), 'object')}, {size_text(report.bytes_deleted)}")
    waiting = sum(part.waiting for part in report.partitions)
    if waiting:
        output.line(_waiting(report, waiting, grace_ms))
    if report.temporaries:
        what = "file or upload" if report.temporaries == 1 else "files or uploads"
        output.line(f"{verb} {count_text(report.temporaries)} temporary {what} that killed processes left")
    if report.fault:
        output.line(f"temporary files and uploads of killed processes could not be removed: {report.fault.text}")


_LONG = 120  # characters


def _listed(report: "GcReport") -> Iterator[tuple[str, str, str, str]]:
    """Rows. A long reason that is that of the row before is not told again: a home of another warehouse has one for
    all."""
    listed = [("would delete", garbage) for garbage in report.deleted] if report.dry_run else []
    listed += [("kept", garbage) for part in report.partitions for garbage in part.kept]
    before = ""
    for what, garbage in listed:
        size = size_text(garbage.bytes) if garbage.bytes else "not counted"
        again = garbage.reason == before and len(before) > _LONG
        yield what, garbage.key, size, "as above" if again else garbage.reason
        before = garbage.reason


_THEY = ("wait", "they stay", "them", "the first of them")


def _waiting(report: "GcReport", waiting: int, grace_ms: int) -> str:
    """Why they did not go yet, and when they will."""
    wait, stay, them, first = ("waits", "it stays", "it", "it") if waiting == 1 else _THEY
    what = f"{counted_text(waiting, 'replaced segment')} {wait}"
    text = f"{what}: {stay} readable for the grace period"
    times_ms = [part.next_ms for part in report.partitions if part.next_ms is not None]
    if times_ms:
        if not grace_ms:
            return f"{what} for the next collection, or as long as a checkpoint pins {them}"
        after = time_text(min(times_ms))
        return f"{text} ({span_text(grace_ms)}). A collection after {after} can delete {first}"
    begins = f"which begins with the first collection that sees {them} replaced (a dry run does not count)"
    return f"{text} ({span_text(grace_ms)}), {begins}, or as long as a checkpoint pins {them}"
