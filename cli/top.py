"""`lithify top`: the partitions that owe most, and the jobs with their progress, live."""

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from lithify.admin.daemon import leave_on_signals
from lithify.cli.failures import tell_faults
from lithify.cli.invocation import Invocation, command
from lithify.cli.output import Output, count_text, counted_text, is_terminal, size_text, time_text
from lithify.manifest.homes import told
from lithify.manifest.words import counted, span_text

if TYPE_CHECKING:
    from lithify.admin.survey import JobNow, Overview, PartitionSurvey

__all__ = ["Rates", "top"]

_PARTITIONS_SHOWN = 20
_BAR_CELLS = 10
_PARTITIONS = ("partition", "#debt", "#L0", "#runs", "#dirty ratio", "next", "compactor", "due for")
_NEXT = {
    "settle": "note how a job ended",
    "drop": "drop segments",
    "resume": "continue a job",
    "admit": "decide on a request",
    "propose": "start a job",
    "wait": "nothing now",
}
_JOBS = ("job", "kind", "progress", "#rate", "#left", "#attempt", "status")


class _Seen(NamedTuple):
    at_ms: int
    bytes_done: int


class Rates:
    """Bytes per second of running jobs: since they were seen before, or else since they were started."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._rates: dict[str, float] = {}

    def look(self, parts: "Sequence[PartitionSurvey]") -> dict[str, float]:
        """By job; without those of which nothing is known yet. A job records whole key ranges, so between two of them
        its rate stays as it was."""
        rates: dict[str, float] = {}
        seen: dict[str, _Seen] = {}
        for part in parts:
            for job in part.jobs:
                now, before = _Seen(part.at_ms, bytes_done(job)), self._seen.get(job.id)
                began = before or (_Seen(job.started_at_ms, 0) if job.started_at_ms is not None else now)
                if now.bytes_done > began.bytes_done and now.at_ms > began.at_ms:
                    rates[job.id] = (now.bytes_done - began.bytes_done) * 1_000 / (now.at_ms - began.at_ms)
                    seen[job.id] = now
                else:
                    seen[job.id] = before or (began if began.at_ms < now.at_ms else now)
                    if job.id in self._rates:
                        rates[job.id] = self._rates[job.id]
        self._seen, self._rates = seen, rates
        return rates


def bytes_done(job: "JobNow") -> int:
    return job.input_bytes * job.recorded // job.ranges if job.ranges else 0


@command()
@click.option("--once", is_flag=True, help="Show it once; the default if standard output is not a terminal.")
@click.option(
    "--refresh-ms", type=click.IntRange(100), default=2_000, show_default=True, help="Pause between two looks."
)
def top(invocation: Invocation, once: bool, refresh_ms: int) -> int:
    """Show the partitions that owe most compaction, and running jobs with progress and rate, until Ctrl-C."""
    invocation.require_begun()
    output, rates = invocation.output, Rates()
    live = not (once or output.as_json) and is_terminal(sys.stdout)
    admin = invocation.admin(survey_ms=0 if not live else refresh_ms // 2)
    if not live:
        overview = admin.overview()
        output.answer(overview, lambda: _show(output, overview, rates))
        return tell_faults([failed.fault for failed in overview.failed])
    leave = threading.Event()
    with leave_on_signals(leave.set), output.live() as draw:
        while not leave.is_set():
            overview = admin.overview()
            draw(lambda shown, overview=overview: _show(shown, overview, rates))
            leave.wait(refresh_ms / 1_000)
    return 0


def _show(output: Output, overview: "Overview", rates: Rates) -> None:
    parts = sorted(overview.partitions, key=lambda part: (-part.debt_bytes, part.topic, part.partition))
    jobs = [job for part in parts for job in part.jobs]
    rate_of = rates.look(parts)
    debt = sum(part.debt_bytes for part in parts)
    rate = sum(rate_of.values())
    age = f", {span_text(overview.age_ms)} old" if overview.age_ms >= 1_000 else ""
    output.line(
        f"{time_text(overview.at_ms)}{age}: {counted(len(parts), 'partition')}, {size_text(debt)} to compact, "
        f"{counted(len(jobs), 'job')}" + (f", {size_text(int(rate))}/s" if rate else "")
    )
    rows = [_partition(part) for part in parts[:_PARTITIONS_SHOWN]]
    output.table(_PARTITIONS, rows, less=("compactor", "runs", "dirty ratio", "due for"), lead="partition")
    if len(parts) > len(rows):
        output.line(f"and {counted_text(len(parts) - len(rows), 'partition')} more, with less to compact")
    if jobs:
        found = [_job(job, rate_of.get(job.id)) for job in jobs]
        output.table(_JOBS, found, less=("attempt", "kind", "left"), lead="job")
    _show_homes(output, overview)
    for failed in overview.failed:
        output.line(
            f"! {failed.topic}{'' if failed.partition is None else f'/{failed.partition}'}: {failed.fault.text}"
        )


def _show_homes(output: Output, overview: "Overview") -> None:
    """Where all partitions together have their segments, if not all of it is in the warehouse."""
    sums: dict[str, list[int]] = {}
    for use in (use for part in overview.partitions for use in part.homes):
        so_far = sums.setdefault(use.home, [0, 0, 0])
        sums[use.home] = [so_far[0] + use.segments, so_far[1] + use.bytes, so_far[2] + use.retired_bytes]
    if len(sums) > 1:
        away = {state.home: state.away for state in overview.homes}
        rows = [
            (told(home), segments, size_text(size), size_text(retired), "away" if away.get(home) else "")
            for home, (segments, size, retired) in sorted(sums.items())
        ]
        output.table(("home", "#segments", "#size", "#replaced", "state"), rows, less=("replaced",), lead="home")
    for state in overview.homes:
        if state.away:
            output.line(f"! {told(state.home)} is away: {state.away}")


def _partition(part: "PartitionSurvey") -> tuple[object, ...]:
    since_ms = min((debt.since_ms for debt in part.debts), default=None)
    stopped = "quarantined" if part.quarantine else "paused" if part.paused else _NEXT[part.action]
    owner = f"{part.compactor}{' (at work)' if part.at_work else ''}" if part.compactor else "none yet"
    due = "" if since_ms is None else span_text(max(part.at_ms - since_ms, 0))
    figures = (size_text(part.debt_bytes), count_text(part.l0_segments), count_text(part.runs))
    return (f"{part.topic}/{part.partition}", *figures, f"{part.dirty_ratio:.2f}", stopped, owner, due)


def _job(job: "JobNow", rate: float | None) -> tuple[object, ...]:
    share = job.recorded / job.ranges if job.ranges else 0.0
    full = int(share * _BAR_CELLS)
    bar = f"[{'#' * full}{'.' * (_BAR_CELLS - full)}] {100 * share:3.0f} %"
    left = span_text(int((job.input_bytes - bytes_done(job)) * 1_000 / rate)) if rate else ""
    status = "running" if job.running else job.status
    return (job.id, job.kind or "", bar, f"{size_text(int(rate))}/s" if rate else "", left, job.attempt, status)
