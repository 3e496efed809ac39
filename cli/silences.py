"""A store that does not answer: a command says so once, while it tries again."""

import logging
import sys

import structlog

from lithify.cli.terminal import warn

__all__ = ["tell_silence"]

log = structlog.wrap_logger(logging.getLogger("lithify.cli"))


def tell_silence(where: str) -> None:
    """On a terminal a line for its reader, elsewhere one in the log."""
    if sys.stderr.isatty():
        warn(f"no answer from {where} yet; still trying (Ctrl-C ends it)")
    else:
        log.info("no answer from the store yet", url=where)
