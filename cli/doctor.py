"""`lithify doctor`: is this place fit for a log, is this machine fit for the work, and does anything need a person?"""

import importlib.metadata
import platform
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from lithify.cli.failures import FOUND_DAMAGE
from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, quarantine_text, size_text
from lithify.manifest.words import counted, span_text
from lithify.store.apart import Fault, attempt
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.log.warehouse import Warehouse
    from lithify.manifest.config import TopicConfig
    from lithify.manifest.keys import PartitionKeys
    from lithify.manifest.model import Manifest, TopicFile
    from lithify.store.probe import ProbeReport

__all__ = ["Check", "doctor", "topic_checks"]

_PACKAGES = ("pyarrow", "pyspark", "boto3", "botocore", "s3fs", "fsspec")
_S3FS_YEAR_MIN = 2026
_FREE_BYTES_MIN = 2 << 30  # large sorts spill there
_DEBT_OLD_MS = 3_600_000


class Check(msgspec.Struct, frozen=True):
    """`verdict` failure makes the exit code 9 (7 if the store does not answer or refuses access, 2 if no log can be
    kept there); a warning does not."""

    name: str
    verdict: Literal["ok", "warning", "failure"]
    detail: str
    fault: Fault | None = None  # if it is one that this check met


@command()
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Rounds of simultaneous creates in the probe.",
)
def doctor(invocation: Invocation, rounds: int) -> int:
    """Probe the warehouse's store, and check versions, Java, clocks, free space, topics and overdue compaction."""
    from lithify.store.probe import probe

    warehouse = invocation.warehouse()
    output = invocation.output
    with output.progress("examining") as tick:
        checks: list[Check] = []
        for part in (_versions(), _java(), _space()):
            checks += part
            tick(1)
        report = probe(warehouse.store, rounds)
        checks += _store(report)
        tick(1)
        if report.finding != "unavailable":  # otherwise each topic would wait for the same silence
            checks += [*_temporaries(warehouse), *topic_checks(warehouse)]
    url = shown(warehouse.url)
    output.answer({"warehouse": url, "checks": checks}, lambda: _show(output, url, checks))
    return _code(report, checks)


def _code(report: "ProbeReport", checks: list[Check]) -> int:
    if not any(check.verdict == "failure" for check in checks):
        return 0
    unavailable = Unavailable.exit_code
    codes = {"unavailable": unavailable, "refused": unavailable, "unfit": InvalidRequest.exit_code}
    return codes.get(report.finding or "", FOUND_DAMAGE)


def _show(output: Output, url: str, checks: list[Check]) -> None:
    output.table(("verdict", "check", "what was found"), [(c.verdict, c.name, c.detail) for c in checks], url)
    bad = [check for check in checks if check.verdict == "failure"]
    output.line(f"{counted(len(bad), 'check')} failed" if bad else "fit")


def _versions() -> Iterator[Check]:
    yield Check("lithify", "ok", f"{importlib.metadata.version('lithify')}, Python {platform.python_version()}")
    for name in _PACKAGES:
        version = importlib.metadata.version(name)
        if name == "s3fs" and int(version.split(".")[0]) < _S3FS_YEAR_MIN:
            detail = (
                f"{version} is too old for exports (a resolver probably fell back to it): pip install "
                f"'s3fs>={_S3FS_YEAR_MIN}.2'"
            )
            yield Check(name, "warning", detail)
        else:
            yield Check(name, "ok", version)


def _java() -> Iterator[Check]:
    from lithify.work.java import find_java

    java = find_java()
    missing = (
        "no Java 17 or later found. The Spark engine needs it (pip install 'lithify[java]'); --engine local does not"
    )
    yield Check("java", "ok", str(java)) if java else Check("java", "warning", missing)


def _space() -> Iterator[Check]:
    from lithify.segment.spill import spill_folder

    try:
        folder = spill_folder()
    except Unavailable as error:
        yield Check("temporary folder", "failure", str(error), Fault.of(error))
        return
    free = shutil.disk_usage(folder).free
    detail = f"{size_text(free)} free in {folder}"
    if free >= _FREE_BYTES_MIN:
        yield Check("temporary folder", "ok", detail)
    else:
        yield Check("temporary folder", "warning", f"{detail}: large sorts spill there; free some space, or set TMPDIR")


def _store(report: "ProbeReport") -> Iterator[Check]:
    for found in report.checks:
        yield Check(f"store: {found.name}", "ok" if found.ok else found.severity, found.detail)


def _temporaries(warehouse: "Warehouse") -> Iterator[Check]:
    from lithify.manifest.keys import is_segment_key

    store = warehouse.store
    try:
        removed = store.remove_stale_temporaries(is_segment_key)
    except LithifyError as error:
        yield Check("stale temporaries", "warning", str(error), Fault.of(error))
    else:
        yield Check("stale temporaries", "ok", f"{removed} removed, left by killed processes")


def topic_checks(warehouse: "Warehouse") -> Iterator[Check]:
    from lithify.manifest.walk import UnreadTopic, partitions_found

    all_found = attempt(lambda: list(partitions_found(warehouse.driver)))
    if isinstance(all_found, Fault):
        yield Check("topics", "failure", all_found.text, all_found)
        return
    readable = 0
    for found in all_found:
        if isinstance(found, UnreadTopic):
            yield Check(f"topic {found.topic}", "failure", found.fault.text, found.fault)
            continue
        checks = attempt(lambda found=found: _partition(warehouse, found.keys, found.topic))
        if isinstance(checks, Fault):
            yield Check(f"{found.keys.topic}/{found.keys.partition}", "failure", checks.text, checks)
            continue
        readable += 1
        yield from checks
    yield Check("topics", "ok", f"{readable} partitions are readable")


def _partition(warehouse: "Warehouse", keys: "PartitionKeys", known: "TopicFile") -> list[Check]:
    """Checks of a partition: its job files must be readable; then its head."""
    from lithify.manifest.config import parse
    from lithify.manifest.partition import PartitionFiles

    files = PartitionFiles(keys)
    warehouse.driver.run(files.compactor_state())
    return list(_head(warehouse, warehouse.driver.run(files.head()), parse(known.config)))


def _head(warehouse: "Warehouse", head: "Manifest", config: "TopicConfig") -> Iterator[Check]:
    from lithify.log.consumer_info import consumer_infos
    from lithify.manifest.retention import floor_at, stalled_by_future

    where = f"{head.topic}/{head.partition}"
    now_ms = warehouse.driver.now_ms()
    floor = floor_at(head, now_ms)
    for consumer in consumer_infos(head, floor):
        if consumer.alarm is not None:
            yield Check(where, "warning", f"consumer {consumer.name}: {consumer.alarm}")
    stalled = stalled_by_future(head, floor, now_ms)
    if stalled is not None:
        yield Check(where, "warning", stalled)
    if head.quarantine is None:
        yield from _debt(where, head, config, now_ms)
        return
    stopped = head.quarantine
    text = quarantine_text(head.topic, head.partition, stopped.reason, stopped.segment, head.segments())
    yield Check(where, "failure", text)


def _debt(where: str, head: "Manifest", config: "TopicConfig", now_ms: int) -> Iterator[Check]:
    from lithify.manifest.debt import assess

    debt = assess(head, config, now_ms)
    due = debt.due
    if due is None:
        return
    oldest_ms = min(each.min_timestamp_ms for each in (*due.units, *debt.droppable))
    age_ms = now_ms - max(head.last_compacted_at_ms or 0, oldest_ms)
    if age_ms >= _DEBT_OLD_MS:
        detail = f"a {due.kind} ({due.reason}) seems to have been due for {span_text(age_ms)}, judging by the records"
        yield Check(where, "warning", f"{detail}: is a compactor running?")
