"""The outermost command, and the handling of errors."""

import atexit
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from lithify.cli.failures import BROKEN_PIPE, tell
from lithify.cli.invocation import Group, Invocation, outermost
from lithify.cli.logs import set_up_logs
from lithify.cli.streams import OutputFailed, drain, guard_streams, silence

__all__ = ["cli", "main"]

# Imported on demand. A command whose module is not installed is not listed.
_COMMANDS = {
    "demo": "lithify.cli.demo.command",
    "dev": "lithify.cli.dev",
    "warehouse": "lithify.cli.warehouses",
    "topic": "lithify.cli.topics",
    "append": "lithify.cli.appends",
    "read": "lithify.cli.reads",
    "scan": "lithify.cli.reads",
    "get": "lithify.cli.reads",
    "why": "lithify.cli.why",
    "export": "lithify.cli.reads",
    "consumer": "lithify.cli.consumers",
    "transaction": "lithify.cli.transactions",
    "compactor": "lithify.cli.service",
    "compaction": "lithify.cli.compactions",
    "home": "lithify.cli.homes",
    "gc": "lithify.cli.garbage",
    "serve": "lithify.cli.serving",
    "checkpoint": "lithify.cli.checkpoints",
    "manifest": "lithify.cli.manifests",
    "verify": "lithify.cli.verification",
    "doctor": "lithify.cli.doctor",
    "top": "lithify.cli.top",
    "completion": "lithify.cli.completion",
}


class _Root(Group):
    """Loads its commands lazily, and turns exceptions into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, module in _COMMANDS.items() if importlib.util.find_spec(module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None or importlib.util.find_spec(module) is None:
            return None
        return getattr(importlib.import_module(module), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Caught here, because click would exit with 1. Python flushes at exit and would complain, so write nowhere.
            silence(sys.stdout)
            return BROKEN_PIPE
        return result

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> NoReturn:
        """Exits with a code from the table in docs/cli.md."""
        invocation = Invocation()
        given = sys.argv[1:] if args is None else args
        more |= {"standalone_mode": False, "obj": invocation}
        try:
            result = super().main(args, *rest, **more)
            code = result if isinstance(result, int) else 0
            if code == BROKEN_PIPE and invocation.how_far is not None:
                gone, as_json = BrokenPipeError(), invocation.as_json or _asks_for_json(given)
                tell(gone, as_json=as_json, debug=False, how_far=invocation.how_far(gone))
        except Exception as error:  # noqa: BLE001 - the outermost place: there is nobody left to raise to
            how_far = None if invocation.how_far is None else invocation.how_far(error)
            error = invocation.explained(error.told if isinstance(error, OutputFailed) else error)
            code = tell(
                error,
                as_json=invocation.as_json or _asks_for_json(given),
                debug=invocation.log_level == "debug",
                how_far=how_far,
            )
            drain()
        finally:
            invocation.close()
        sys.exit(code)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Of a command line that cannot be parsed."""
    return "--json" in words[: words.index("--")] if "--" in words else "--json" in words


@click.group(
    "lithify",
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Settings, formats and exit codes: docs/cli.md.",
)
@click.version_option(package_name="lithify", prog_name="lithify", message="%(prog)s %(version)s")
@outermost
@click.pass_context
def cli(context: click.Context) -> None:
    """Compaction, retention and garbage collection for keyed logs that live in an object store."""
    invocation = context.ensure_object(Invocation)
    set_up_logs(invocation.log_format, invocation.log_level or "warning")


def main() -> NoReturn:
    """The console script."""
    codes: list[int] = []
    atexit.register(_leave, codes)  # before all others, so that it comes after them
    guard_streams()
    try:
        cli.main(prog_name="lithify")
    except SystemExit as ended:
        codes += [ended.code] if isinstance(ended.code, int) else []
        raise


def _leave(codes: list[int]) -> None:
    """End the process with its code, here and now.

    SUBTLE! 1. pyarrow reads a source ahead, in a thread of its own that calls Python. 2. The command ends, by an error
    or a signal, and the interpreter with it. 3. The thread comes back from its read, and finds an interpreter that is
    going away: the process aborts. Test: tests/cli/test_process.py::test_a_read_that_is_under_way_does_not_abort_it
    """
    for code in codes:
        drain()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
