"""What every command is given: which warehouse, how to reach it, and how to speak."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import msgspec

from lithify.cli.output import Output
from lithify.cli.settings import option
from lithify.store.errors import InvalidRequest

if TYPE_CHECKING:
    from lithify.log.warehouse import Warehouse

__all__ = ["HowFar", "Invocation", "command", "outermost", "parse_changes", "parse_pairs", "parse_storage_options"]

F = TypeVar("F", bound=Callable[..., Any])

_SECRETS = ("key", "secret", "token")  # never read as JSON: they may be all digits


class HowFar(NamedTuple):
    """What a command that ended early was about, how far it came, and the same for machines."""

    what: str
    text: str
    fields: dict[str, object]


@dataclass
class Invocation:
    """Filled by the flags that every command takes, before or after the command's name."""

    warehouse_url: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    as_json: bool = False
    log_format: str = "text"
    log_level: str | None = None
    how_far: "Callable[[], HowFar] | None" = None  # where what a command has done so far matters, if it fails
    _open: "Warehouse | None" = field(default=None, repr=False)

    @property
    def output(self) -> Output:
        return Output(self.as_json)

    def warehouse(self) -> "Warehouse":
        """Opened at its first use. Raises InvalidRequest."""
        if self._open is None:
            from lithify.log import warehouse

            if not self.warehouse_url:
                raise InvalidRequest("which warehouse? Give --warehouse URL, or set LITHIFY_WAREHOUSE")
            self._open = warehouse.open(self.warehouse_url, storage_options=self.storage_options)
        return self._open

    def options_for(self, url: str) -> dict[str, Any]:
        """The storage options, for another URL of the same kind of store."""
        mine = (self.warehouse_url or "").partition("://")[0]
        theirs = url.partition("://")[0]
        return self.storage_options if mine.replace("s3a", "s3") == theirs.replace("s3a", "s3") else {}

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def parse_pairs(pairs: Iterable[str], flag: str) -> dict[str, str]:
    """NAME=VALUE each. A refusal shows no value: it may be a secret."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        name = name.strip()
        if not separator or not name:
            raise InvalidRequest(f"{flag}: give NAME=VALUE")
        if parsed.get(name, value) != value:
            raise InvalidRequest(f"{flag} {name}: it is given twice, with two values: leave one of them out")
        parsed[name] = value
    return parsed


def parse_changes(pairs: Iterable[str], unset: Iterable[str]) -> dict[str, str | None]:
    """What --config and --unset ask for, None for what is unset. Raises InvalidRequest where both name the same."""
    given = parse_pairs(pairs, "--config")
    names = [name.strip() for name in unset]
    twice = sorted(given.keys() & set(names))
    if twice:
        raise InvalidRequest(f"{', '.join(twice)}: give either --config or --unset")
    return {**given, **dict.fromkeys(names)}


def parse_storage_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Dots nest: client_kwargs.region_name=eu-west-1. Values true, false, numbers and quoted text are read as JSON."""
    options: dict[str, Any] = {}
    for name, text in parse_pairs(pairs, "--storage-option").items():
        *folders, last = name.split(".")
        place = options
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise InvalidRequest(f"--storage-option {name}: {folder} was given a value of its own, too")
        place[last] = text if name in _SECRETS else _value(text)
    return options


def _value(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        invocation = context.ensure_object(Invocation)
        if name == "storage_options":
            # What stands after the command's name comes later, and wins where both say something.
            invocation.storage_options |= parse_storage_options(value or ())
        elif value is not None and value is not False:
            setattr(invocation, name, value)

    return keep


_GLOBAL = (
    ("warehouse", "warehouse_url"),
    ("storage.option", "storage_options"),
    ("json", "as_json"),
    ("log.format", "log_format"),
    ("log.level", "log_level"),
)


def outermost(function: F) -> F:
    """The flags of every command, for the one that all others are commands of."""
    return _take_everywhere(function, hidden=False)


def _take_everywhere(function: F, *, hidden: bool) -> F:
    """`hidden`: not in the command's help, not from variables (the outermost command reads them)."""
    for name, attribute in reversed(_GLOBAL):  # the last one applied is shown first
        more: dict[str, Any] = {"callback": _keep(attribute), "expose_value": False, "default": None}
        if hidden:
            more |= {"hidden": True, "envvar": None}
        function = option(name, **more)(function)
    return function


def command(group: click.Group | None = None, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that is given the invocation first, and takes the flags of every command."""

    def make(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(*arguments: Any, **values: Any) -> Any:
            context = click.get_current_context()
            invocation = context.ensure_object(Invocation)
            return function(invocation, *arguments, **values)

        wrapped = _take_everywhere(run, hidden=True)
        shaped = click.command(name, epilog="Flags of every command: see 'lithify --help'.")(wrapped)
        if group is not None:
            group.add_command(shaped)
        return shaped

    return make
