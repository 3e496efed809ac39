"""The demo's output: numbered steps, and progress bars on a terminal."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

__all__ = ["Screen"]


class Screen:
    """On a terminal: colour and bars. Elsewhere: plain lines."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
        self._steps = 0

    def title(self, text: str) -> None:
        self._console.print(text, style="bold")

    def step(self, text: str) -> None:
        self._steps += 1
        self._console.print(f"\n{self._steps}. {text}", style="bold")

    def say(self, text: str) -> None:
        self._console.print(f"   {text}")

    def show(self, what: RenderableType) -> None:
        self._console.print()
        self._console.print(what)

    @contextmanager
    def bar(self, text: str, total: float) -> Generator[Callable[[float], None]]:
        """Call the yielded function with the amount done; the bar disappears when the block ends."""
        columns = (TextColumn(f"   {text}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        off = not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=off) as progress:
            task = progress.add_task(text, total=total)
            yield lambda done: progress.update(task, completed=done)
