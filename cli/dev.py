"""`lithify dev`: an S3 on loopback to play with, in this process's memory."""

import threading
from importlib.util import find_spec

import click

from lithify.cli.invocation import Invocation, command
from lithify.cli.settings import setting
from lithify.store.errors import InvalidRequest

__all__ = ["dev"]

BUCKET = "lithify"


@command()
@click.option("--port", type=click.IntRange(0, 65_535), default=9000, show_default=True, help="0: any free port.")
def dev(invocation: Invocation, port: int) -> None:
    """Run an S3 server on loopback, with atomic conditional writes, until Ctrl-C. Its objects are kept in memory.

    Standard output has the variables to export, for 'source' or, with --json, for programs.
    """
    if find_spec("moto") is None or find_spec("werkzeug") is None:
        raise InvalidRequest("lithify dev needs moto: pip install 'lithify[testing]'")
    from lithify.admin.daemon import leave_on_signals
    from lithify.testing.server import S3Server

    try:
        server = S3Server(port)
    except SystemExit as stop:  # werkzeug exits like this; its message is on standard error
        raise InvalidRequest(f"no server can listen on 127.0.0.1:{port}: give another --port, or 0") from stop
    asked = threading.Event()
    with server, leave_on_signals(asked.set):
        exports = server.env | {setting("warehouse").variable: f"s3://{server.create_bucket(BUCKET)}/warehouse"}
        if invocation.as_json:
            invocation.output.document(exports)
        else:
            for name, value in exports.items():
                click.echo(f"export {name}={value}")
            click.echo(f"# {server.endpoint_url}, until Ctrl-C: paste these lines into another shell", err=True)
        asked.wait()
