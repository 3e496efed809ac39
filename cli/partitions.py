"""`lithify topic describe NAME --partition N`: one partition, with its shape drawn."""

import sys
from typing import TYPE_CHECKING

from lithify.cli.checkpoints import expiry_text
from lithify.cli.consumers import show_consumers
from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Invocation
from lithify.cli.output import Output, count_text, counted_text, is_terminal, size_text, terminal_width, time_text
from lithify.cli.shape import FILLED, PLAIN, shape_lines
from lithify.manifest.config import parse
from lithify.manifest.homes import HERE, told
from lithify.manifest.words import quarantine_text, tried_again_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lithify.admin.checkpoints import PartitionCheckpoint
    from lithify.log.info import PartitionInfo, TopicInfo

__all__ = ["alarms", "describe_partition", "due_text", "home_lines"]

_WIDTH = 100  # where there is no terminal


def describe_partition(invocation: Invocation, topic: str, number: int) -> int:
    admin, output = invocation.admin(), invocation.output
    part = admin.describe(topic, number)
    if output.as_json:
        output.document(part)
        return 0
    pins = admin.checkpoints(topic, number, owner=None)
    _show(output, part, pins.items)
    return tell_faults(pins.faults)


def _show(output: Output, part: "PartitionInfo", pins: "Sequence[PartitionCheckpoint]") -> None:
    output.line(f"{part.topic}/{part.partition}: manifest {part.manifest_id}, compactor epoch {part.compactor_epoch}")
    readable = f"{count_text(part.logical_rows)} records readable ({size_text(part.logical_bytes)})"
    if part.logical_rows < part.rows:
        readable += "; the others lie below the floor"
    clean_to = min(part.cleaned_to, part.next_offset)
    output.lines(
        [
            f"  stored: {count_text(part.rows)} records ({size_text(part.bytes)}); {readable}",
            f"  offsets: {part.log_start_offset} (the floor) up to {part.next_offset}; merged up to {clean_to}",
            f"  dirty: {size_text(part.dirty_bytes)}, ratio {part.dirty_ratio:.2f}",
            f"  compacted: {time_text(part.last_compacted_at) or 'never'}",
            f"  due: {due_text(part)}",
        ]
    )
    output.picture(shape_lines(part, terminal_width() if is_terminal(sys.stdout) else _WIDTH, _shades()))
    output.line(f"pins: {len(pins)}")
    for each in pins:
        pin = each.checkpoint
        owner = "checkpoint" if pin.owner == "user" else pin.owner
        output.line(f"  {owner} {pin.name}: manifest {pin.manifest}, expires {expiry_text(each)}")
    output.lines(f"! {alarm}" for alarm in alarms(part))
    if part.consumers:
        show_consumers(output, [(part.partition, known) for known in part.consumers])


def home_lines(info: "TopicInfo") -> "Iterator[str]":
    """A line per home, of a topic that has another one than the warehouse."""
    config = parse(info.config)
    held: dict[str, list[int]] = {HERE: [], **({config.cold_home: []} if config.cold_home else {})}
    for part in info.partitions:
        for segment in (*part.l0, *(each for run in part.runs for each in run.segments)):
            held.setdefault(segment.home, []).append(segment.bytes)
    if held.keys() == {HERE}:
        return
    for home, sizes in held.items():
        yield f"home {told(home)}: {counted_text(len(sizes), 'segment')}, {size_text(sum(sizes))}"


def _shades() -> str:
    return FILLED if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" else PLAIN


def due_text(part: "PartitionInfo") -> str:
    return part.due or ("the next attempt of a job that failed" if part.failing else "nothing")


def alarms(part: "PartitionInfo") -> "Iterator[str]":
    """What keeps it from being compacted, and what to do."""
    if part.quarantine is not None:
        known = [*part.l0, *(segment for run in part.runs for segment in run.segments)]
        yield quarantine_text(part.topic, part.partition, part.quarantine, part.quarantined_segment, known)
    if part.failing is not None:
        yield tried_again_text(part.topic, part.partition, part.failing)
    if part.retention_pinned is not None:
        yield part.retention_pinned
