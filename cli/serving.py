"""`lithify serve`: the HTTP API of a warehouse, beside any compactor."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.settings import option
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.admin.http.server import Serving

__all__ = ["http_options", "serve", "server_of"]

_ADDRESS = "127.0.0.1:8480"


def http_options(function: Any) -> Any:
    for each in (
        option("http.host"),
        option("http.tokens", type=click.Path(dir_okay=False, path_type=Path)),
        option("http"),
    ):
        function = each(function)
    return function


def server_of(invocation: Invocation, address: str, http_tokens: Path | None, http_host: tuple[str, ...]) -> "Serving":
    """Raises InvalidRequest, Unavailable."""
    try:
        from lithify.admin.http.server import TOKENS_VARIABLE, serving
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lithify"):
            raise
        raise InvalidRequest(f"HTTP needs {error.name}, which is not installed: pip install 'lithify[http]'") from None
    tokens = os.environ.get(TOKENS_VARIABLE, "")
    return serving(invocation.warehouse(), address, http_tokens, tokens, http_host)


@command()
@http_options
def serve(invocation: Invocation, http: str | None, http_tokens: Path | None, http_host: tuple[str, ...]) -> int:
    """Serve the HTTP API of the warehouse until SIGTERM or Ctrl-C. Its address is the first line on standard
    output."""
    from lithify.cli.service import serve as run

    server = server_of(invocation, http or _ADDRESS, http_tokens, http_host)
    run(invocation, server=server)
    return 0
