"""A progress bar for each running compaction, on a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lithify.cli.output import Output, is_terminal
from lithify.events.event_log import log_event
from lithify.events.types import AttemptBegan, Event, JobAdmitted, JobEnded, RangesDiscarded, RangesRecorded, Sink

__all__ = ["Bars", "bars"]


class Bars:
    """A sink of events (docs/rfcs/0015) that draws with rich's progress display, or anything with its methods."""

    def __init__(self, drawn: Any) -> None:
        self._drawn = drawn
        self._tasks: dict[tuple[str, int | None, str], Any] = {}
        self._kinds: dict[tuple[str, int | None, str], str] = {}

    def __call__(self, event: Event) -> None:
        if not isinstance(event, JobAdmitted | AttemptBegan | RangesRecorded | RangesDiscarded | JobEnded):
            return
        job = event.topic, event.partition, event.job
        match event:
            case JobAdmitted():
                self._kinds[job] = event.kind
            case AttemptBegan():  # the only event for a job that an earlier process admitted
                self._task(job, event.ranges)
                self._drawn.update(self._tasks[job], completed=event.recorded, total=event.ranges)
            case RangesRecorded() | RangesDiscarded():
                if job in self._tasks:
                    self._drawn.update(self._tasks[job], completed=event.recorded)
            case JobEnded():
                self._kinds.pop(job, None)
                task = self._tasks.pop(job, None)
                if task is not None:
                    self._drawn.update(task, completed=event.recorded)

    def _task(self, job: tuple[str, int | None, str], ranges: int) -> None:
        if job not in self._tasks:
            topic, partition, name = job
            kind = self._kinds.get(job, "compaction")
            self._tasks[job] = self._drawn.add_task(f"{kind} {topic}/{partition}/{name}", total=ranges)


@contextmanager
def bars(output: Output) -> Generator[Sink]:
    """The sink draws a bar on standard error for each job, and logs. If nobody can see it, it only logs."""
    if output.as_json or not is_terminal(sys.stderr):
        yield log_event
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        shown = Bars(drawn)

        def both(event: Event) -> None:
            shown(event)
            log_event(event)

        yield both
