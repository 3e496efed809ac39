"""What a command prints: tables on a terminal, plain lines elsewhere, one JSON document on request."""

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import IO, Any, Protocol

import click
import msgspec

from lithify.cli.tables import Columns, drawn, wrapped
from lithify.cli.terminal import json_bytes, plain, warn
from lithify.manifest.words import counted, size_text

__all__ = [
    "Output",
    "Ticker",
    "count_text",
    "counted_text",
    "is_terminal",
    "size_text",
    "tell_cold",
    "terminal_width",
    "time_text",
]

_YEAR_10000_MS = 253_402_300_800_000


class Ticker(Protocol):
    """Advances a progress bar; does nothing if nobody would see one."""

    def __call__(self, advance: int, /) -> None: ...

    def reached(self, done: int, total: int) -> None:
        """Draw it so far, of a total that is known only now."""
        ...


class Output:
    """Standard output of one command."""

    def __init__(self, as_json: bool, *, wide: bool = False) -> None:
        self.as_json = as_json
        self._wide = wide  # tables with all their columns, whatever the terminal's width

    def document(self, value: Any) -> None:
        """Print `value` (structs, mappings, lists) as JSON; record keys in it are base64."""
        body = json_bytes(value)
        click.echo(msgspec.json.format(body, indent=2) if is_terminal(sys.stdout) else body)

    def answer(self, value: Any, show: Callable[[], None]) -> None:
        """Print `value` as JSON if that was requested, else call `show`."""
        if self.as_json:
            self.document(value)
        else:
            show()

    def line(self, text: str) -> None:
        """On a terminal, wrapped between words."""
        shown = plain(text)
        for each in wrapped(shown, terminal_width()) if is_terminal(sys.stdout) else [shown]:
            click.echo(each)

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def picture(self, texts: Iterable[str]) -> None:
        """Lines that were drawn for the width."""
        for text in texts:
            click.echo(plain(text))

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        title: str = "",
        *,
        less: Sequence[str] = (),
        lead: str = "",
        prose: bool = False,
    ) -> None:
        """Columns whose name begins with '#' are numbers, aligned to the right. Where a terminal is too narrow, see
        `Columns`; elsewhere nothing is left out or wrapped."""
        cells = [[_cell(value) for value in row] for row in rows]
        self._show(Columns(columns, less, lead, prose), cells, title)

    def _show(self, columns: Columns, cells: list[list[str]], title: str) -> None:
        if is_terminal(sys.stdout):
            _terminal_table(columns, cells, title, wide=self._wide)
        else:
            _plain_table(columns.names, cells, title)

    @contextmanager
    def live(self) -> Generator[Callable[[Callable[["Output"], None]], None]]:
        """Yields a function that takes what to show on the whole terminal, instead of what it showed before."""
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(file=sys.stdout)
        with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False) as drawn:

            def draw(show: Callable[[Output], None]) -> None:
                page = _Page(console.width, wide=self._wide)
                show(page)
                drawn.update(Text.assemble(*page.found, no_wrap=True, overflow="crop"), refresh=True)

            yield draw

    def progress(
        self, what: str, total: int | None = None, *, of_bytes: bool = False, seen: bool = True
    ) -> AbstractContextManager[Ticker]:
        """A progress bar on standard error, if that is a terminal; none if `seen` is False. It counts `of_bytes`, or
        whatever it is told."""
        if not seen or self.as_json or not is_terminal(sys.stderr):
            return nullcontext(_Silent())
        return _Bar(what, total, of_bytes=of_bytes)


class _Page(Output):
    """Keeps what a terminal would show."""

    def __init__(self, width: int, *, wide: bool) -> None:
        super().__init__(as_json=False, wide=wide)
        self._width = width
        self.found: list[tuple[str, str]] = []  # text, style

    def line(self, text: str) -> None:
        self.found += [(f"{each}\n", "") for each in wrapped(plain(text), self._width)]

    def _show(self, columns: Columns, cells: list[list[str]], title: str) -> None:
        for line in drawn(columns, cells, self._width, wide=self._wide):
            self.found.append((f"{line.text}\n", "bold" if line.head else ""))


class _Silent:
    """Does nothing: nobody would see it."""

    def __call__(self, advance: int, /) -> None: ...

    def reached(self, done: int, total: int) -> None: ...


class _Bar:
    def __init__(self, what: str, total: int | None, *, of_bytes: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        from lithify.cli.amounts import Amount

        amount = Amount(of_bytes=of_bytes)
        columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Ticker:
        self._bar.start()
        return self

    def __call__(self, advance: int, /) -> None:
        self._bar.advance(self._task, advance)

    def reached(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def is_terminal(stream: IO[str]) -> bool:
    from rich.console import Console

    return Console(file=stream).is_terminal


def _cell(value: object) -> str:
    return "" if value is None else plain(str(value))


def terminal_width() -> int:
    """Cells in a line of standard output."""
    from rich.console import Console

    return Console(file=sys.stdout).width


def _terminal_table(columns: Columns, cells: list[list[str]], title: str, *, wide: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout)
    if title:
        console.print(Text(plain(title), "bold"), soft_wrap=True)
    for line in drawn(columns, cells, console.width, wide=wide):
        console.print(Text(line.text, "bold" if line.head else ""), soft_wrap=True)


def _plain_table(columns: Sequence[str], cells: list[list[str]], title: str) -> None:
    """Aligned, not wrapped, without colour: for pipes, files and grep."""
    if title:
        click.echo(plain(title))
    lines = [[name.lstrip("#") for name in columns], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = [
            cell.rjust(width) if name.startswith("#") else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def tell_cold(topic: str, segments: int) -> None:
    """Say on standard error that an answer took segments of a cold home: that may have been slow, and costs retrieval
    there."""
    if segments:
        read = f"{counted(segments, 'segment')} of a cold home {'was' if segments == 1 else 'were'} read"
        warn(f"{read}; 'lithify home status {topic}' shows what is where")


def count_text(count: int) -> str:
    return f"{count:,}"


def counted_text(count: int, noun: str) -> str:
    """1 row; 1,234 rows."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


def time_text(at_ms: int | None) -> str:
    """Milliseconds since 1970 as UTC, to the second."""
    if at_ms is None:
        return ""
    if not 0 <= at_ms < _YEAR_10000_MS:  # a record may have any timestamp
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
