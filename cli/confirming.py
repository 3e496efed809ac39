"""Asking before something is done that cannot be undone."""

import sys

import click

from lithify.cli.failures import Declined
from lithify.cli.terminal import plain
from lithify.store.errors import InvalidRequest

__all__ = ["confirm"]


def confirm(yes: bool, question: str, warning: str) -> None:
    """Ask `question`, unless `yes` answers it. Raises Declined, and InvalidRequest, which begins with `warning`, if
    there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{warning}; there is no terminal to ask for confirmation: give --yes")
    try:
        agreed = click.confirm(plain(question), err=True)
    except OSError as error:
        raise Declined("nothing was done: the terminal went away") from error
    if not agreed:
        raise Declined("nothing was done: you answered no")
