"""`lithify completion`: the script by which a shell completes commands and flags."""

import os
from typing import Literal

import click
from click.shell_completion import get_completion_class

from lithify.cli.invocation import Invocation, command
from lithify.store.errors import InvalidRequest

__all__ = ["completion"]

_VARIABLE = "_LITHIFY_COMPLETE"  # click looks at it
_SHELLS = ("bash", "zsh", "fish")


@command()
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
def completion(invocation: Invocation, shell: 'Literal["bash", "zsh", "fish"] | None') -> None:
    """Print a script that completes commands and flags, for bash, zsh or fish. Default: the shell in $SHELL.

    \b
    bash  eval "$(lithify completion bash)"         in ~/.bashrc
    zsh   eval "$(lithify completion zsh)"          in ~/.zshrc, after compinit
    fish  lithify completion fish > ~/.config/fish/completions/lithify.fish
    """
    from lithify.cli.main import cli

    name = shell or os.environ.get("SHELL", "").rpartition("/")[2]
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise InvalidRequest(f"name the shell: {', '.join(_SHELLS)}")
    script = found(cli, {}, "lithify", _VARIABLE).source()
    invocation.output.answer({"shell": name, "script": script}, lambda: invocation.output.picture(script.splitlines()))
