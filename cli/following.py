"""Live progress of running compactions, for somebody who looks at a terminal."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lithify.cli.output import Output, is_terminal
from lithify.store.errors import LithifyError

if TYPE_CHECKING:
    from lithify.log.warehouse import Warehouse

__all__ = ["following"]

_LOOK_EVERY_S = 1.0


@contextmanager
def following(warehouse: "Warehouse", output: Output) -> Generator[None]:
    """Within, each compaction that runs has its bar on standard error. Costs nothing where nobody would see it."""
    if output.as_json or not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    over = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        looking = threading.Thread(target=_follow, args=(warehouse, bars, over), name="lithify-progress", daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()


def _follow(warehouse: "Warehouse", bars: Any, over: threading.Event) -> None:
    from lithify.admin.client import Admin

    admin = Admin(warehouse)
    shown: dict[str, Any] = {}
    while not over.wait(_LOOK_EVERY_S):
        try:
            running = {info.id: info for info in admin.compactions() if info.status == "in_progress"}
        except LithifyError:  # the pass itself tells of it; the next look may succeed
            continue
        for compaction, info in running.items():
            if compaction not in shown:
                shown[compaction] = bars.add_task(f"{info.kind} {compaction}", total=100)
            bars.update(shown[compaction], completed=info.progress.completion_percentage)
        for compaction in shown.keys() - running.keys():
            bars.update(shown[compaction], completed=100)
