"""`lithify compactor run`: until nothing is due, with a report, or as a service."""

import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import click

from lithify.cli.failures import FAILED, code_of
from lithify.cli.invocation import Group, Invocation, command
from lithify.cli.output import Output, count_text, size_text
from lithify.cli.running import make_collector, run_parts
from lithify.cli.serving import http_options, server_of
from lithify.cli.settings import option
from lithify.cli.terminal import warn
from lithify.events.event_log import both, log_event
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest, LithifyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lithify.compactor.compactor import Compactor
    from lithify.compactor.engine import Engine
    from lithify.compactor.info import MaintenanceReport, PartitionReport
    from lithify.events.types import Sink

__all__ = ["compactor", "make_engine"]

_COLUMNS = (
    *("topic", "#partition", "outcome"),
    *("#records stored", "#records readable", "#bytes stored", "#bytes readable"),
    "what was done, or why not",  # last, because it may be long
)


@click.group(cls=Group)
def compactor() -> None:
    """Run a compactor, once or as a service."""


@command(compactor)
@click.option("--once", is_flag=True, help="Run until nothing is due, then print a report. Default: run until stopped.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated. Default: all."
)
@click.option("--take-over", is_flag=True, help="Also take partitions away from a compactor that is working.")
@option("engine")
@option("master")
@option("compactor.spark_conf")
@option("compactor.executor.wait.ms")
@option("compactor.interval.ms")
@option("compactor.rest.ms")
@option("compactor.initial.delay.ms")
@option("compactor.concurrency")
@option("compactor.parallelism")
@option("compactor.bytes.in.flight")
@option("compactor.probe")
@option("gc")
@option("gc.interval.ms")
@option("gc.rest.ms")
@option("gc.grace.ms")
@option("gc.sweep.interval.ms")
@http_options
def run(
    invocation: Invocation,
    once: bool,
    topics: tuple[str, ...],
    take_over: bool,
    engine: str,
    master: str | None,
    **settings: Any,
) -> int:
    """Compact what is due, in every partition of the warehouse. On SIGTERM or Ctrl-C it records what has finished and
    ends; a second one ends it at once."""
    from lithify.compactor.compactor import Compactor

    warehouse, server = invocation.warehouse(), None
    if once and settings["http"] is not None:
        raise InvalidRequest("--http is for a service: leave out --once, or --http")
    if settings["http"] is not None:
        server = server_of(invocation, settings["http"], settings)
    if not once and settings["probe"]:
        from lithify.store.probe import probe

        with invocation.output.progress("probing the store"):
            report = probe(warehouse.store)
        report.require()
    for name in topics:
        warehouse.topic(name)  # refused at once if there is none
    made = make_engine(engine, master, settings)

    def compactor_with(events: "Sink") -> Compactor:
        return Compactor(
            warehouse,
            made,
            concurrency=settings["concurrency"],
            interval_ms=settings["interval_ms"],
            rest_ms=settings["rest_ms"],
            bytes_in_flight=settings["bytes_in_flight"],
            topics=topics or None,
            events=events,
        )

    if once:
        return _run_once(invocation, compactor_with, take_over)
    with suppress(LithifyError):  # an outage is waited out
        if not warehouse.begun:
            warn(f"warning: {invocation.not_begun()}")
    events = log_event if server is None else both(log_event, server.sink)
    with closing(compactor_with(events)) as compactor:
        collecting = None
        if settings["gc"]:
            collector = make_collector(
                warehouse,
                settings["gc_grace_ms"],
                events,
                interval_ms=settings["gc_interval_ms"],
                rest_ms=settings["gc_rest_ms"],
            )
            collecting = (collector, settings["gc_interval_ms"], settings["gc_sweep_interval_ms"])
        compacting = (compactor, settings["interval_ms"], settings["initial_delay_ms"], take_over)
        run_parts(invocation, compacting, collecting, server)
        return 0


def make_engine(name: str, master: str | None, settings: Any) -> "Engine":
    """Raises InvalidRequest. A Spark session starts only when the first job is due."""
    if name == "spark":
        from lithify.compactor.engines.spark import SparkEngine
        from lithify.work.spark_conf import parse_spark_conf

        return SparkEngine(
            master,
            parallelism=settings["parallelism"],
            config=parse_spark_conf(settings["spark_conf"]),
            executor_wait_ms=settings["executor_wait_ms"],
        )
    for flag, given in (("--master", master), ("--spark-conf", settings["spark_conf"])):
        if given:
            raise InvalidRequest(f"{flag} is Spark's, and the engine is {name}: leave one of them out")
    from lithify.compactor.engines.local import LocalEngine

    return LocalEngine(parallelism=settings["parallelism"])


def _run_once(invocation: Invocation, compactor_with: "Callable[[Sink], Compactor]", take_over: bool) -> int:
    from lithify.admin.daemon import leave_on_signals
    from lithify.cli.bars import bars

    output = invocation.output
    with bars(output) as events:
        compactor, told = compactor_with(events), threading.Event()

        def stop() -> None:
            told.set()
            compactor.stop()

        with leave_on_signals(stop), closing(compactor):
            report = compactor.run_once(take_over)
    if not report.partitions:
        invocation.require_begun()
    output.answer(report, lambda: _show(output, report))
    return code_of(report) or (FAILED if told.is_set() and report.more_work else 0)


def _show(output: Output, report: "MaintenanceReport") -> None:
    rows = [
        (
            *(part.topic, part.partition, "quarantined" if part.quarantined else part.outcome),
            *_holdings(part),
            _what(part),
        )
        for part in report.partitions
    ]
    less = ("bytes readable", "records readable", "bytes stored")
    output.table(_COLUMNS, rows, less=less, lead="topic", prose=True)
    if any(part.after.logical_rows < part.after.rows for part in report.partitions):
        output.line("stored is all that live segments hold; readable leaves out what lies below the log start")
    if not rows:
        output.line("this warehouse has no topics")
    for part in report.partitions:
        if part.quarantined:
            command = f"'lithify compaction retry {part.topic} --partition {part.partition}'"
            output.line(f"{part.topic}/{part.partition} is quarantined: restore the segment, then run {command}")
    if any(part.outcome.leaves_work and not part.quarantined for part in report.partitions):
        output.line("there is more to do: run again, or see the reasons above")


def _holdings(part: "PartitionReport") -> "Sequence[str]":
    """Blank if the partition could not be read."""
    before, after = part.before, part.after
    if part.fault is not None and before == after == type(after)():
        return ("",) * 4
    return (
        _change(count_text, before.rows, after.rows),
        _change(count_text, before.logical_rows, after.logical_rows),
        _change(size_text, before.bytes, after.bytes),
        _change(size_text, before.logical_bytes, after.logical_bytes),
    )


def _change(text: "Callable[[int], str]", before: int, after: int) -> str:
    return text(after) if before == after else f"{text(before)} → {text(after)}"


def _what(part: "PartitionReport") -> str:
    """What was done, and how the pass ended, unless that is already said."""
    done = [
        f"{job.kind or 'request'} {job.status}: {job.error.reason if job.error else job.reason}" for job in part.jobs
    ]
    if part.dropped_segments:
        dropped = counted(part.dropped_segments, "segment")
        done.insert(0, f"dropped {dropped} below the log start ({size_text(part.dropped_bytes)})")
    failed = any(job.error is not None and (job.id == part.last_job or part.quarantined) for job in part.jobs)
    if not done or not (failed or part.nothing_due):
        done.append(part.detail)
    return "; ".join(done)
