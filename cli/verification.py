"""`lithify verify`: checksums, references, and objects that nothing names."""

from typing import TYPE_CHECKING, Literal

import click

from lithify.cli.failures import code_of
from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, count_text, size_text
from lithify.cli.settings import option
from lithify.store.errors import RESTORE

if TYPE_CHECKING:
    from lithify.admin.verify import PartitionCheck, VerifyReport

__all__ = ["verify"]


@command()
@click.argument("topic", required=False)
@click.option("--deep", is_flag=True, help="Also decode the rows, and check their order and statistics.")
@option("engine", default=None, show_default="by size")
@option("master")
@option("compactor.spark_conf")
@option("compactor.executor.wait.ms")
def verify(
    invocation: Invocation,
    topic: str | None,
    deep: bool,
    engine: Literal["spark", "local"] | None,
    master: str | None,
    spark_conf: tuple[str, ...],
    executor_wait_ms: int,
) -> int:
    """Check that every live or pinned segment of TOPIC, or of the warehouse, exists and has the right size and
    checksum. Also check the invariants of manifests, and count objects that nothing refers to."""
    admin, output = invocation.admin(), invocation.output
    with output.progress("verifying") as tick:
        report = admin.verify(
            topic,
            deep=deep,
            engine=engine,
            master=master,
            spark_conf=spark_conf,
            executor_wait_ms=executor_wait_ms,
            ended=tick,
        )
    if not report.partitions:
        invocation.require_begun()
    output.answer(report, lambda: _show(output, report))
    return code_of(report)


def _show(output: Output, report: "VerifyReport") -> None:
    rows = [
        (
            *(check.topic, check.partition),
            *(_counts(check) if check.manifest_id else ("",) * 6),  # or it could not be read
            *(len(check.findings), _quarantine(check)),
        )
        for check in report.partitions
    ]
    columns = ("topic", "#partition", "#manifest", "#segments", "#size", "#only pinned", "#unnamed objects")
    less = ("their size", "manifest", "only pinned", "unnamed objects")
    output.table((*columns, "#their size", "#findings", "quarantine"), rows, less=less, lead="topic", prose=True)
    for finding in report.findings:
        output.line(f"{finding.kind}: {finding.message}")
    for check in report.partitions:
        if check.quarantine:
            where = f"{check.topic}/{check.partition}"
            output.line(
                f"quarantined: {where} is not compacted: {_quarantine(check)}. Once its segment is restored from a "
                f"copy: 'lithify compaction retry {check.topic} --partition {check.partition}'"
            )
    if any(check.unnamed and not check.pins_unread for check in report.partitions):
        output.line(
            "objects that no manifest names are orphans or uploads in progress: 'lithify gc run --dry-run --sweep' "
            "lists them"
        )
    for check in report.partitions:
        if check.unnamed and check.pins_unread:
            output.line(
                f"{check.topic}/{check.partition}: whether the unnamed objects are garbage cannot be judged while a "
                "manifest that a checkpoint pins, or its run list, cannot be read"
            )
    uploading = sum(check.uploading for check in report.partitions)
    if uploading:
        output.line(
            f"{uploading} of them belong to uploads that stand ('lithify manifest show'): no sweep deletes those"
        )
    if not report.findings:
        output.line("every live or pinned segment exists and is intact")


def _counts(check: "PartitionCheck") -> tuple[object, ...]:
    return (
        *(check.manifest_id, count_text(check.segments), size_text(check.bytes), check.pinned, check.unnamed),
        size_text(check.unnamed_bytes),
    )


def _quarantine(check: "PartitionCheck") -> str:
    """Its reason, without the advice to verify, which has just been done."""
    return (check.quarantine or "").removesuffix(RESTORE).rstrip(". ")
