"""`lithify why`: every stored version of a key, what wrote it, and why it is seen or not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Invocation, command, key_bytes
from lithify.cli.output import Output, counted_text, tell_cold, time_text

if TYPE_CHECKING:
    from lithify.admin.history import KeyCopy, KeyHistory, KeyVersion
    from lithify.compactor.info import CompactionInfo

__all__ = ["why"]


@command()
@click.argument("topic")
@click.argument("key")
@click.option("--base64", "is_base64", is_flag=True, help="KEY is base64.")
@click.option("--partition", type=int, help="Only this partition. Default: where the key lives, and where it lived.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="At most N versions.")
@click.option("--values", is_flag=True, help="Show the values too; then at most 100 versions.")
def why(
    invocation: Invocation, topic: str, key: str, is_base64: bool, partition: int | None, limit: int, values: bool
) -> None:
    """Show every stored version of KEY in TOPIC: what wrote it, where it is, and why readers see it or not."""
    wanted = key_bytes(key, is_base64=is_base64)
    found = invocation.admin().history(topic, wanted, partition, limit, values=values, trace=True)
    output = invocation.output
    output.answer(found, lambda: _show(output, found))
    tell_cold(topic, found.cold_segments_read)


def _show(output: Output, found: "KeyHistory") -> None:
    if not found.versions:
        output.line(f"{found.topic}/{found.home} has no version of this key, nor has any checkpoint")
        output.line(
            "  Either it was never appended, or its last record was removed: by retention, or as an expired tombstone"
        )
        return
    jobs = {job.id: job for job in found.jobs}
    output.line(f"the key lives in {found.topic}/{found.home}; {counted_text(len(found.versions), 'stored version')}")
    for version in found.versions:
        what = "tombstone" if version.tombstone else counted_text(version.value_bytes, "byte")
        where = f"{found.topic}/{version.partition} offset {version.offset}"
        output.line(f"{where}, {time_text(version.timestamp_ms)}, {what}: {_verdict(version)}")
        if version.value is not None:
            output.line(f"  value: {version.value.decode(errors='backslashreplace')}")
        output.lines(f"  {_copy(copy, jobs)}" for copy in version.copies)
    if found.more:
        output.line("older versions are left out: --limit N shows more")


def _verdict(version: "KeyVersion") -> str:
    by = f"superseded by offset {version.superseded_by}"
    match version.state.value:
        case "latest" if not version.tombstone:
            return "the latest, which every reader sees"
        case "latest":
            return f"the key is deleted; 'read' shows the tombstone {_horizon(version)}"
        case "superseded":
            return f"{by}; only 'read' shows it, until a compaction merges the two"
        case "expired":
            return f"below the log start {version.log_start_offset}, so no reader sees it"
        case "left behind":
            return (
                "left behind when the topic grew, and the key moved to another partition; 'scan --partition' shows it"
            )
        case _:
            text = "no longer in the log; only those who read what keeps it see it"
            return text if version.superseded_by is None else f"{by}, and {text}"


def _horizon(version: "KeyVersion") -> str:
    if version.horizon_ms is None:
        return "until delete.retention.ms after a clean has met it"
    return f"until a compaction after {time_text(version.horizon_ms)}"


def _copy(copy: "KeyCopy", jobs: "Mapping[str, CompactionInfo]") -> str:
    at = time_text(copy.written_at_ms) or "a time that is not known any more"
    if copy.job:
        job = jobs.get(copy.job)
        from_what = "" if job is None else f" ({job.kind} of {counted_text(job.total_sources, 'source')})"
        text = f"rewritten at {at} by {copy.job}{from_what} into segment {copy.segment} of run {copy.run}"
    else:
        text = f"appended at {at} as segment {copy.segment}"
        text += f", since then part of run {copy.run}" if copy.run else ""
    kept = ", ".join(copy.checkpoints)
    if not copy.live:
        return f"{text}; kept by {kept}"
    return f"{text}; also kept by {kept}" if kept else text
