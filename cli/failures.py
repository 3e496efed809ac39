"""What an error means for the caller of a command: one line, and an exit code by kind."""

import re
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import click

from lithify.admin.interruption import HungUp, Terminated
from lithify.cli.invocation import HowFar
from lithify.cli.terminal import json_bytes, warn
from lithify.manifest.quantities import unit_hint
from lithify.store.apart import Ending, Fault, ending_of
from lithify.store.errors import CommitUnknown, Corrupt, InvalidRequest, LithifyError, Unavailable, error_classes

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "FOUND_DAMAGE",
    "HUNG_UP",
    "INTERRUPTED",
    "TERMINATED",
    "UNEXPECTED",
    "Declined",
    "code_of",
    "exit_codes_table",
    "one_line",
    "tell",
    "tell_faults",
]

FAILED = 1
USAGE = InvalidRequest.exit_code
FOUND_DAMAGE = Corrupt.exit_code
UNEXPECTED = LithifyError.exit_code
HUNG_UP = 129  # 128 + SIGHUP
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE

_DONE_IN_PART = (
    "partly done: the report names the partitions that failed; or you answered a question with no (`Declined`), and "
    "nothing was done"
)


_EXTRA = re.compile(r"unexpected extra arguments? \(([^\s)]+)")
_PAIR = re.compile(r"[a-z0-9._]+=.*")


class Declined(Exception):
    """A person was asked, and answered no."""


def exit_codes_table() -> str:
    """The table in docs/cli.md, as Markdown."""
    rows = [(0, "", "done; a service ended as requested")]
    rows.append((FAILED, "", _DONE_IN_PART))
    rows += [(each.exit_code, each.kind, each.remedy) for each in error_classes()]
    rows.append(
        (
            HUNG_UP,
            "HungUp",
            "SIGHUP, when a terminal is closed: as SIGTERM; services and `read --follow` end with 0",
        )
    )
    rows.append((INTERRUPTED, "Interrupted", "Ctrl-C"))
    rows.append(
        (BROKEN_PIPE, "BrokenPipe", "the program reading the output closed it (a broken pipe), or the terminal is gone")
    )
    rows.append((TERMINATED, "Terminated", "SIGTERM; `append` says how far it came, `export` leaves the old file"))
    lines = ["| Code | Kind | What to do |", "|---|---|---|"]
    lines += [f"| {code} | {f'`{kind}`' if kind else ''} | {what} |" for code, kind, what in rows]
    return "\n".join(lines) + "\n"


def one_line(error: BaseException) -> str:
    """The error's message and notes on one line."""
    return " ".join("; ".join([str(error), *getattr(error, "__notes__", ())]).split())


def tell(error: BaseException, *, as_json: bool, debug: bool, how_far: HowFar | None = None) -> int:
    """Report on standard error what went wrong, and how far the command came; returns the exit code."""
    match error:
        case LithifyError():
            kind, message, code = error.kind, one_line(error), error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return USAGE
        case click.UsageError():
            kind, message, code = "Usage", _usage(error), USAGE
        case click.ClickException():
            kind, message, code = "Usage", error.format_message(), USAGE
        case Declined():
            kind, message, code = "Declined", str(error), FAILED
        case click.Abort() | KeyboardInterrupt() | BrokenPipeError():
            kind, message, code = _ended(error)
        case _:
            kind, message, code = "Unexpected", _unexpected(error), UNEXPECTED
    if how_far is not None:
        what = "" if message.startswith(how_far.what) else f"{how_far.what}: "
        message = f"{what}{message.rstrip('.')}. {how_far.text}"
    token = error.token if isinstance(error, CommitUnknown) else ""
    if as_json:
        fault = Fault.of(error) if isinstance(error, LithifyError) else None
        body = {"kind": kind, "message": message, "key": fault.key if fault else ""}
        body |= {"retryable": fault is not None and fault.retryable, "exit_code": code}
        body |= {"token": token} if token else {}
        body |= {} if how_far is None else how_far.fields
        click.echo(json_bytes({"error": body}), err=True)
    else:
        warn(message + (f" (token {token})" if token else ""))
    if debug and code == UNEXPECTED:
        # Without the message, which may quote a record.
        click.echo("".join(traceback.format_tb(error.__traceback__)), err=True, nl=False)
    return code


def _ended(error: BaseException) -> tuple[str, str, int]:
    match error:
        case click.Abort(__cause__=HungUp()):
            return "HungUp", "the terminal went away", HUNG_UP
        case click.Abort(__cause__=Terminated()):
            return "Terminated", "told to end", TERMINATED
        case BrokenPipeError():
            return "BrokenPipe", "nobody reads the output any more", BROKEN_PIPE
        case _:
            return "Interrupted", "interrupted", INTERRUPTED


class Report(Protocol):
    @property
    def ending(self) -> Ending: ...


_CODES = {
    Ending.DONE: 0,
    Ending.IN_PART: FAILED,
    Ending.UNREACHABLE: Unavailable.exit_code,
    Ending.UNFIT: USAGE,
    Ending.DAMAGED: FOUND_DAMAGE,
}


def code_of(report: Report) -> int:
    """The exit code of any report."""
    return _CODES[report.ending]


def tell_faults(faults: Sequence[Fault]) -> int:
    """Report on standard error what a list does not include; returns the exit code. One cause is told once."""
    for text, count in Counter(" ".join(fault.text.split()) for fault in faults).items():
        warn(f"{text} ({count} times)" if count > 1 else text)
    return _CODES[ending_of(faults)]


def _usage(error: click.UsageError) -> str:
    message = error.format_message().rstrip(".")
    where = error.ctx.command_path if error.ctx is not None else "lithify"
    if isinstance(error, click.BadParameter) and error.param is not None and "valid integer" in message:
        given = re.search(r"'([^']*)' is not a valid integer", message)
        message += unit_hint(error.param.name or "", given and given[1])
    extra = _EXTRA.search(message)
    flags = () if error.ctx is None else [name for each in error.ctx.command.params for name in each.opts]
    if extra and (flag := "--config" if _PAIR.fullmatch(extra[1]) else "--from") in flags:
        message += f": give it as {flag} {extra[1]}"
    return f"{message}{'' if message.endswith(('?', '?)')) else '.'} Try '{where} --help'"


def _unexpected(error: BaseException) -> str:
    frame, where = error.__traceback__, "?"
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__", ""))
        if module.startswith("lithify"):
            where = f"{module}:{frame.tb_lineno}"
        frame = frame.tb_next
    version = sys.version.split()[0]
    return (
        f"unexpected {type(error).__name__} at {where} (Python {version}). This is a bug in lithify: please report "
        "it, with what --log-level debug shows"
    )
