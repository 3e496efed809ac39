"""`lithify serve`: the HTTP API of a warehouse, beside any compactor."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.running import run_parts
from lithify.cli.settings import option
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.admin.http.server import Serving

__all__ = ["http_options", "serve", "server_of"]

_ADDRESS = "127.0.0.1:8480"
_file = click.Path(dir_okay=False, path_type=Path)


def http_options(function: Any) -> Any:
    for each in (
        option("http.metrics.topics"),
        option("http.survey.ms"),
        option("http.key", type=_file),
        option("http.cert", type=_file),
        option("http.host"),
        option("http.tokens", type=_file),
        option("http"),
    ):
        function = each(function)
    return function


def server_of(invocation: Invocation, address: str, settings: Mapping[str, Any]) -> "Serving":
    """`settings`: of `http_options`. Raises InvalidRequest, Unavailable."""
    try:
        from lithify.admin.http.server import TOKENS_VARIABLE, serving
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lithify"):
            raise
        raise InvalidRequest(f"HTTP needs {error.name}, which is not installed: pip install 'lithify[http]'") from None
    tokens = os.environ.get(TOKENS_VARIABLE, "")
    certificate, key = settings["http_cert"], settings["http_key"]
    if (certificate is None) != (key is None):
        raise InvalidRequest("HTTPS needs both: give --http-cert and --http-key, or neither")
    return serving(
        invocation.warehouse(),
        address,
        settings["http_tokens"],
        tokens,
        settings["http_host"],
        settings["http_survey_ms"],
        settings["http_metrics_topics"],
        None if certificate is None else (certificate, key),
    )


@command()
@http_options
def serve(invocation: Invocation, http: str | None, **settings: Any) -> int:
    """Serve the HTTP API of the warehouse until SIGTERM or Ctrl-C. Its address is the first line on standard
    output."""
    run_parts(invocation, server=server_of(invocation, http or _ADDRESS, settings))
    return 0
