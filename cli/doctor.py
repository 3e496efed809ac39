"""`lithify doctor`: is this place fit for a log, is this machine fit for the work, and does anything need a person?"""

import importlib.metadata
import platform
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from lithify.admin.health import Check, ending_of_checks, stale_temporaries
from lithify.cli.failures import code_of
from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, size_text
from lithify.manifest.words import counted
from lithify.store.apart import Ending, Fault, attempt
from lithify.store.errors import Unavailable
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.store.probe import ProbeReport

__all__ = ["doctor"]

_PACKAGES = ("pyarrow", "pyspark", "boto3", "botocore", "s3fs", "fsspec")
_S3FS_YEAR_MIN = 2026
_FREE_BYTES_MIN = 2 << 30  # large sorts spill there


class Diagnosis(msgspec.Struct, frozen=True):
    """Of the store, this machine and the warehouse.

    A failure makes the exit code 9 (7 if the store, or another home, does not answer or refuses access; 2 if no log can
    be kept there); a warning does not.
    """

    warehouse: str
    checks: tuple[Check, ...]
    ending: Ending


class ServerDiagnosis(msgspec.Struct, frozen=True):
    """Of a server, and through it of the warehouse. Exit codes as of `Diagnosis`."""

    url: str
    checks: tuple[Check, ...]
    ending: Ending


@command()
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Rounds of simultaneous creates in the probe.",
)
def doctor(invocation: Invocation, rounds: int) -> int:
    """Probe and time the warehouse's store, and check versions, Java, clocks, free space, topics, room for appends,
    homes and overdue compaction. With --url: whether that server and its store answer, and of the rest what concerns
    the warehouse."""
    from lithify.store.probe import probe_apart

    if invocation.url:
        return _ask(invocation)
    warehouse = invocation.warehouse()
    output = invocation.output
    with output.progress("examining") as tick:
        checks: list[Check] = []
        for part in (_versions(), _java(), _space()):
            checks += part
            tick(1)
        report = probe_apart(warehouse.store, rounds, timed=True)
        checks += _store(report)
        tick(1)
        if report.finding != "unavailable":  # otherwise each topic would wait for the same silence
            checks += invocation.admin().health().checks
            checks.append(stale_temporaries(warehouse.driver.homes))  # of the homes, too, that were asked just now
            if not warehouse.begun:
                checks.append(Check("warehouse", "warning", invocation.not_begun()))
    found = Diagnosis(shown(warehouse.url), tuple(checks), _ending(report, tuple(checks)))
    value = {"warehouse": found.warehouse, "checks": found.checks}
    fit = (
        "fit" if report.finding == "unavailable" or warehouse.begun else "the store is fit; there is no warehouse here"
    )
    output.answer(value, lambda: _show(output, found.warehouse, found.checks, fit))
    return code_of(found)


def _ask(invocation: Invocation) -> int:
    from lithify.admin.http.client import RemoteAdmin

    admin = invocation.admin()
    assert isinstance(admin, RemoteAdmin)
    output = invocation.output
    checks: tuple[Check, ...]
    with output.progress("asking"):
        answers = attempt(admin.ready)
        if isinstance(answers, Fault):
            checks, ending = (
                (Check("server", "failure", f"{answers.text} (its log says more)", answers),),
                Ending.UNREACHABLE,
            )
        else:
            checks = (Check("server", "ok", f"{admin.url} answers, and so does its store"),)
            health = attempt(admin.health)
            if isinstance(health, Fault):
                checks, ending = (*checks, Check("topics", "failure", health.text, health)), Ending.UNREACHABLE
            else:
                checks, ending = (*checks, *health.checks), health.ending
    found = ServerDiagnosis(admin.url, checks, ending)
    output.answer({"url": found.url, "checks": checks}, lambda: _show(output, found.url, checks))
    return code_of(found)


def _ending(report: "ProbeReport", checks: tuple[Check, ...]) -> Ending:
    if not any(check.verdict == "failure" for check in checks):
        return Ending.DONE
    match report.finding:
        case "unavailable" | "refused":
            return Ending.UNREACHABLE
        case "unfit":
            return Ending.UNFIT
        case _:
            return ending_of_checks(checks)


def _show(output: Output, where: str, checks: tuple[Check, ...], fit: str = "fit") -> None:
    """`fit`: what is said if no check failed."""
    rows = [(check.verdict, check.name, check.detail) for check in checks]
    output.table(("verdict", "check", "what was found"), rows, where, prose=True)
    bad = [check for check in checks if check.verdict == "failure"]
    output.line(f"{counted(len(bad), 'check')} failed" if bad else fit)


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
