"""`lithify manifest show`: the truth of a partition, for people, or as it is stored."""

import sys
from typing import TYPE_CHECKING

import click

from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, count_text, is_terminal, size_text, time_text
from lithify.cli.terminal import plain_bytes
from lithify.manifest.words import counted
from lithify.store.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lithify.admin.manifests import NamedList
    from lithify.manifest.model import Manifest, SegmentRef, Upload

__all__ = ["manifest"]


@click.group(cls=Group)
def manifest() -> None:
    """Show manifests."""


@command(manifest)
@click.argument("topic")
@click.option("--partition", type=int, default=0, show_default=True)
@click.option("--number", type=click.IntRange(1), help="This manifest. Default: the head.")
def show(invocation: Invocation, topic: str, partition: int, number: int | None) -> None:
    """Show the manifest of a partition of TOPIC. With --json: the stored bytes."""
    if not invocation.as_json:
        _show_whole(invocation, topic, partition, number)
        return
    # Not decoded: an operator may have to see a file that lithify cannot read.
    invocation.warehouse()  # only there are the bytes: refuses --url
    stored = invocation.admin().manifest_file(topic, partition, number)
    click.echo(plain_bytes(stored.body) if is_terminal(sys.stdout) else stored.body, nl=False)


def _show_whole(invocation: Invocation, topic: str, partition: int, number: int | None) -> None:
    """If a run list is damaged or missing, shows what the manifest itself says, and which lists those are."""
    from lithify.admin.manifests import in_parts, named_lists

    admin, output = invocation.admin(), invocation.output
    try:
        shown = admin.manifest(topic, partition, number)
    except Corrupt as error:
        if invocation.url or not error.key.endswith(".runs"):
            raise
        driver = invocation.warehouse().driver
        _show(output, *in_parts(driver, admin.manifest_file(topic, partition, number)))
        output.line("segments in run lists are not shown, since not all of these can be read")
        raise
    _show(output, shown, named_lists(shown))


def _show(output: Output, shown: "Manifest", lists: "Sequence[NamedList]") -> None:
    output.line(f"{shown.topic}/{shown.partition} manifest {shown.id}, committed {time_text(shown.committed_at_ms)}")
    facts = [
        ("offsets", f"{shown.log_start_offset} to {shown.next_offset - 1}" if shown.next_offset else "none yet"),
        ("cleaned to", shown.cleaned_to),
        ("compactor epoch", shown.compactor_epoch),
        ("last compacted", time_text(shown.last_compacted_at_ms) or "never"),
        ("orphan floor", f"{shown.orphan_floor} (uploads that began at an earlier manifest are refused)"),
        ("retired segments", f"{len(shown.retired)}, {size_text(sum(r.bytes for r in shown.retired))}"),
        *([("run lists", _lists(shown))] if shown.lists or shown.retired_lists else []),
        ("producers", len(shown.producers)),
        ("transactions", len(shown.transactions)),
        ("completed jobs", ", ".join(job.id for job in shown.completed_jobs) or "none remembered"),
        *(
            ("checkpoint" if c.owner == "user" else c.owner, f"{c.name}: manifest {c.manifest}")
            for c in shown.checkpoints
        ),
    ]
    facts += [("run list", _list(each)) for each in lists]
    facts += [("upload", _upload(each)) for each in shown.uploads]
    if shown.unpinned:
        facts.append(("no longer pinned, to be collected", ", ".join(f"manifest {n}" for n in shown.unpinned)))
    if shown.sealed:
        facts.append(("sealed", "the topic was deleted"))
    if shown.quarantine is not None:
        facts.append(("quarantine", f"since {time_text(shown.quarantine.since_ms)}: {shown.quarantine.reason}"))
    for name, value in facts:
        output.line(f"  {name}: {value}")
    rows = [("L0", *_row(ref)) for ref in shown.l0]
    rows += [(run.id, *_row(ref)) for run in shown.runs for ref in run.segments]
    columns = ("run", "segment", "#rows", "size", "#from offset", "#to", "#tombstones", "order", "#added at")
    output.table(columns, rows, less=("added at", "order", "tombstones", "size"), lead="segment")


def _lists(shown: "Manifest") -> str:
    text = f"{len(shown.lists)}, {size_text(sum(each.bytes for each in shown.lists))}"
    waiting = len(shown.retired_lists)
    return f"{text}; {waiting} replaced" if waiting else text


def _list(each: "NamedList") -> str:
    problem = f". It {each.problem}" if each.problem else ""
    return f"{each.key}, {counted(each.segments, 'segment')}, {each.bytes} bytes, xxh3 {each.checksum}{problem}"


def _upload(upload: "Upload") -> str:
    done = upload.appended
    what = f"expires {time_text(upload.expires_at_ms)}"
    if done is not None:
        what = f"offsets {done.base_offset} to {done.base_offset + done.rows - 1}, by manifest {done.number}; {what}"
    return f"{upload.name}: {what}"


def _row(ref: "SegmentRef") -> tuple[object, ...]:
    # Keys are contents of records: keep them out of what gets pasted into tickets. --json has their bounds.
    return (
        *(ref.id, count_text(ref.rows), size_text(ref.bytes), ref.min_offset, ref.max_offset),
        *(ref.tombstones, ref.order, ref.added_at),
    )
