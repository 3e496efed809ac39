"""Where log lines go: standard error, as text for people or one JSON object per line for machines."""

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from lithify.cli.terminal import plain

__all__ = ["set_up_logs"]


def set_up_logs(form: str, level: str) -> None:
    """`form`: text or json; `level`: one of logging's level names."""
    text = form == "text"
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org
    renderers: tuple[Any, ...] = (
        (_plain_values, structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0))
        if text
        else (structlog.processors.JSONRenderer(), _plain_line)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )
    # lithify's loggers belong to the standard library's logging, so that an embedding application decides where lines
    # go. Here the command line is that application. The lines are already formatted.
    package = logging.getLogger("lithify")
    package.handlers = [_StandardError()]
    package.propagate = False
    package.setLevel(level.upper())


def _plain_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: plain(value) if isinstance(value, str) else value for name, value in event.items()}


def _plain_line(_: Any, __: str, line: Any) -> str:
    return plain(line)


class _StandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Looked up for each line, because code that captures standard error replaces it.
        print(record.getMessage(), file=sys.stderr)


def _to_stderr(*_: Any) -> structlog.PrintLogger:
    # Looked up for each logger, because code that captures standard error replaces it.
    return structlog.PrintLogger(sys.stderr)
