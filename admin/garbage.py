"""`lithify gc run`: one collection of garbage, each object with its reason; or for ever."""

from typing import TYPE_CHECKING

import click
import msgspec

from lithify.admin.failures import FAILED
from lithify.admin.invocation import Invocation, command
from lithify.admin.output import Output, count_text, size_text
from lithify.admin.settings import option
from lithify.manifest.words import span_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lithify.gc.collector import GcReport, PartitionGc
    from lithify.manifest.model import Checkpoint, Retired
    from lithify.store.driver import Driver

__all__ = ["gc"]


@click.group()
def gc() -> None:
    """Collect what nothing can read any more."""


@command(gc)
@click.option("--once", is_flag=True, help="One pass, then leave. Else for ever.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; say what would go, and why. One pass.")
@click.option("--sweep", is_flag=True, help="List every object, too, and delete orphans. One pass.")
@option("gc.grace.ms")
@option("gc.interval.ms")
@option("gc.sweep.interval.ms")
def run(
    invocation: Invocation,
    once: bool,
    dry_run: bool,
    sweep: bool,
    gc_grace_ms: int,
    gc_interval_ms: int,
    gc_sweep_interval_ms: int,
) -> int:
    """Delete what was replaced a grace period ago and no checkpoint pins."""
    from lithify.gc.collector import Collector

    collector = Collector(invocation.warehouse(), grace_ms=gc_grace_ms)
    if not (once or dry_run or sweep):
        from lithify.admin.service import serve

        serve(invocation, collector=(collector, gc_interval_ms, gc_sweep_interval_ms))
        return 0
    with invocation.output.progress("collecting"):
        report = collector.run_once(dry_run=dry_run, sweep=sweep)
    if dry_run:
        waiting = [_with_waiting(invocation.warehouse().driver, part, gc_grace_ms) for part in report.partitions]
        report = msgspec.structs.replace(report, partitions=tuple(waiting))
    output = invocation.output
    output.answer(report, lambda: _show(output, report))
    return FAILED if any(partition.error for partition in report.partitions) else 0


def _with_waiting(driver: "Driver", part: "PartitionGc", grace_ms: int) -> "PartitionGc":
    """With what was replaced and must wait among what is kept, each with what it waits for."""
    from lithify.gc.reachable import Garbage
    from lithify.manifest.keys import PartitionKeys
    from lithify.manifest.partition import PartitionFiles

    if part.error is not None or not part.waiting:
        return part
    keys = PartitionKeys(part.topic, part.topic_id, part.partition)
    head = driver.run(PartitionFiles(keys).head())
    going = {garbage.key for garbage in part.deleted}
    kept = tuple(
        Garbage(keys.segment(each.id), each.bytes, _waits_for(each, head.checkpoints, grace_ms))
        for each in head.retired
        if keys.segment(each.id) not in going
    )
    return msgspec.structs.replace(part, kept=(*part.kept, *kept))


def _waits_for(retired: "Retired", checkpoints: "Iterable[Checkpoint]", grace_ms: int) -> str:
    pins = [
        f"{it.name} pins manifest {it.manifest}"
        for it in checkpoints
        if retired.added_at <= it.manifest < retired.retired_at
    ]
    grace = f"it stays readable for the grace period ({span_text(grace_ms)})"
    why = f"checkpoint {pins[0]}, which names it" if pins else grace
    return f"replaced by manifest {retired.retired_at}; {why}"


def _show(output: Output, report: "GcReport") -> None:
    rows = [
        (
            *(
                part.topic,
                part.topic_id,
                part.partition,
                len(part.deleted),
                size_text(sum(g.bytes for g in part.deleted)),
            ),
            *(part.waiting, len(part.kept), part.checkpoints_expired, part.boundary, part.error or ""),
        )
        for part in report.partitions
    ]
    columns = ("topic", "topic id", "#partition", "#objects", "#size", "#waiting", "#kept", "#checkpoints expired")
    output.table((*columns, "#boundary", "error"), rows)
    listed = [("would go" if report.dry_run else "deleted", g) for g in report.deleted if report.dry_run]
    listed += [("kept", garbage) for part in report.partitions for garbage in part.kept]
    if listed:
        output.table(
            ("", "object", "#size", "reason"), [(what, g.key, size_text(g.bytes), g.reason) for what, g in listed]
        )
    verb = "would delete" if report.dry_run else "deleted"
    output.line(f"{verb} {count_text(len(report.deleted))} objects, {size_text(report.bytes_deleted)}")
