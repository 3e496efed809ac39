"""What every command gets: the warehouse, how to reach it, and how to print."""

import base64
import binascii
import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import msgspec
from click.core import ParameterSource

from lithify.cli.output import Output
from lithify.cli.settings import option
from lithify.store.errors import InvalidRequest, LithifyError, NotFound
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.admin.client import Admin
    from lithify.log.warehouse import Warehouse

__all__ = [
    "Group",
    "HowFar",
    "Invocation",
    "command",
    "key_bytes",
    "outermost",
    "parse_changes",
    "parse_pairs",
    "parse_storage_options",
    "text_bytes",
]

_OF_WAREHOUSE = ("cache", "homes", "home_timeout_s")  # storage options that are not those of one store

F = TypeVar("F", bound=Callable[..., Any])

_SECRETS = ("key", "secret", "token")  # never parsed as JSON: they may be all digits


class HowFar(NamedTuple):
    """What a command that ended early was doing, and how far it came, for people and for machines."""

    what: str
    text: str
    fields: dict[str, object]


@dataclass
class Invocation:
    """Filled by the flags that all commands share, before or after the command's name."""

    warehouse_url: str | None = None
    url: str | None = None  # of a server to ask instead
    url_flag: bool = False  # given by a flag, not by a variable
    warehouse_flag: bool = False
    storage_options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    as_json: bool = False
    wide: bool = False  # tables with all columns
    log_format: str = "text"
    log_level: str | None = None
    topic: str | None = None  # that the command is about
    # Set if a command should report its progress when it ends by an error.
    how_far: "Callable[[BaseException], HowFar] | None" = None
    _open: "Warehouse | None" = field(default=None, repr=False)
    _admin: "Admin | None" = field(default=None, repr=False)

    @property
    def output(self) -> Output:
        return Output(self.as_json, wide=self.wide)

    def warehouse(self) -> "Warehouse":
        """The warehouse, opened at first use. Raises InvalidRequest."""
        if self._open is None:
            from lithify.cli.silences import tell_silence
            from lithify.log import warehouse
            from lithify.store.metered import tell_of_silence

            if self.url and (not self.warehouse_url or self.url_flag):
                raise InvalidRequest("this command works on the store itself: give --warehouse URL, not --url")
            if not self.warehouse_url:
                raise InvalidRequest("no warehouse given: use --warehouse URL, or set LITHIFY_WAREHOUSE")
            self._open = warehouse.open(self.warehouse_url, storage_options=self.storage_options)
            tell_of_silence(self._open.store, tell_silence)
        return self._open

    def admin(self, survey_ms: int | None = None) -> "Admin":
        """The operations of the warehouse, or of the server at `url`. `survey_ms`: how old an overview may be, unless a
        server answers. Raises InvalidRequest."""
        if self._admin is None:
            from lithify.admin.client import Admin

            if self.url_flag and self.warehouse_flag and self.warehouse_url:
                raise InvalidRequest("give either --url or --warehouse")
            if self.url or survey_ms is None:
                self._admin = Admin(self.url or self.warehouse())
            else:
                self._admin = Admin(self.warehouse(), survey_ms=survey_ms)
        return self._admin

    def require_begun(self, beginning: str = "'lithify topic create'") -> None:
        """Raises NotFound if the warehouse has never had a topic: its URL may be mistyped. A server knows its own.
        `beginning`: the command that begins one."""
        if not self.url and not self.warehouse().begun:
            raise NotFound(self.not_begun(beginning))

    def not_begun(self, beginning: str = "'lithify topic create'") -> str:
        from lithify.cli.nearby import place_hint

        url = self.warehouse().url
        hint = place_hint(url, self.storage_options)
        hint = f" {hint[0].upper()}{hint[1:]}" if hint else ""
        return f"there is no warehouse at {shown(url)}: check the URL.{hint} To begin one there: {beginning}"

    def explained(self, error: Exception) -> Exception:
        """The error to tell: if a topic is missing, that may be because the whole warehouse is, or its name is
        mistyped, or is that of a partition."""
        partition = re.fullmatch(r"([A-Za-z0-9._-]+)/([0-9]+)", self.topic or "")
        if partition is not None and isinstance(error, InvalidRequest) and str(error).startswith("topic name "):
            return InvalidRequest(f"{self.topic} is a partition: give {partition[1]} --partition {partition[2]}")
        missing = f"topic {self.topic} does not exist here"
        if not isinstance(error, NotFound) or self.topic is None or not str(error).startswith(missing):
            return error
        from lithify.cli.nearby import topic_like

        with contextlib.suppress(LithifyError):
            if not self.url and not self.warehouse().begun:
                return NotFound(f"{missing}: {self.not_begun()}")
            like = topic_like(self.admin(), self.topic)
            if like is not None:
                return NotFound(f"{error}. Did you mean {like}?")
        return error

    def options_for(self, url: str) -> dict[str, Any]:
        """The storage options, if `url` belongs to the same kind of store."""
        mine = (self.warehouse_url or "").partition("://")[0]
        theirs = url.partition("://")[0]
        if mine.replace("s3a", "s3") != theirs.replace("s3a", "s3"):
            return {}
        return {name: value for name, value in self.storage_options.items() if name not in _OF_WAREHOUSE}

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def parse_pairs(pairs: Iterable[str], flag: str) -> dict[str, str]:
    """Parse NAME=VALUE pairs. An error shows no value: it may be a secret."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        name = name.strip()
        if not separator or not name:
            raise InvalidRequest(f"{flag} must be NAME=VALUE")
        _check_text(pair, flag)
        if parsed.get(name, value) != value:
            raise InvalidRequest(f"{flag} {name} is given twice, with different values: leave one out")
        parsed[name] = value
    return parsed


def _check_text(text: str, flag: str) -> None:
    """Bytes of a command line that are not UTF-8 are lone surrogates, which nothing can store or send."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequest(f"{flag} has bytes that are not UTF-8")


def key_bytes(key: str, *, is_base64: bool) -> bytes:
    """Of an argument KEY. Raises InvalidRequest."""
    try:
        return base64.b64decode(key, validate=True) if is_base64 else key.encode()
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise InvalidRequest(
            "KEY is not valid base64" if is_base64 else "KEY is not valid text: give it as --base64"
        ) from None


def text_bytes(text: str, flag: str) -> bytes:
    _check_text(text, flag)
    return text.encode()


def parse_changes(pairs: Iterable[str], unset: Iterable[str]) -> dict[str, str | None]:
    """The changes from --config and --unset, None for the latter. Raises InvalidRequest if both name the same."""
    given = parse_pairs(pairs, "--config")
    names = [name.strip() for name in unset]
    _check_text("".join(names), "--unset")
    twice = sorted(given.keys() & set(names))
    if twice:
        raise InvalidRequest(f"{', '.join(twice)}: give either --config or --unset")
    return {**given, **dict.fromkeys(names)}


def parse_storage_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Dots nest: client_kwargs.region_name=eu-west-1. true, false, numbers and quoted text are parsed as JSON, and so
    is the whole of `homes`."""
    options: dict[str, Any] = {}
    for name, text in parse_pairs(pairs, "--storage-option").items():
        *folders, last = _nested(name)
        place = options
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise InvalidRequest(
                    f"--storage-option {name}: {folder} was already given as a plain value; give one of the two"
                )
        if name == "homes":
            for url, given in _homes(text).items():
                place.setdefault(name, {}).setdefault(url, {}).update(given)
        else:
            place[last] = text if last in _SECRETS else _value(text)
    return options


def _nested(name: str) -> list[str]:
    """A home's URL is one name: of what follows `homes.`, it is all up to the first dot after the last slash."""
    if not name.startswith("homes."):
        return name.split(".")
    parts = name.split(".")[1:]
    if not any("/" in part.rpartition("://")[2] for part in parts):
        raise InvalidRequest(f"--storage-option {name}: where does the URL end? Give it as JSON: homes={{…}}")
    end = 1 + max((at for at, part in enumerate(parts) if "/" in part), default=0)
    return ["homes", ".".join(parts[:end]), *parts[end:]]


def _homes(text: str) -> dict[str, dict[str, Any]]:
    try:
        return msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        raise InvalidRequest(
            '--storage-option homes is JSON, as {"s3://bucket/prefix": {"key": …}}; or give each of its options, as '
            "homes.s3://bucket/prefix.key=…"
        ) from None


def _value(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        invocation = context.ensure_object(Invocation)
        if name == "storage_options":
            # Options after the command's name come later, and win in a conflict.
            invocation.storage_options |= parse_storage_options(value or ())
        elif value is not None and value is not False:
            setattr(invocation, name, value)
            flag = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
            invocation.url_flag |= flag and name == "url"
            invocation.warehouse_flag |= flag and name == "warehouse_url"

    return keep


_GLOBAL = (
    ("warehouse", "warehouse_url"),
    ("url", "url"),
    ("storage.option", "storage_options"),
    ("json", "as_json"),
    ("wide", "wide"),
    ("log.format", "log_format"),
    ("log.level", "log_level"),
)


def outermost(function: F) -> F:
    """The flags of every command, for the outermost command."""
    return _take_everywhere(function, hidden=False)


def _take_everywhere(function: F, *, hidden: bool) -> F:
    """`hidden`: not shown in the command's help, not read from variables (the outermost command reads them)."""
    for name, attribute in reversed(_GLOBAL):  # the last one applied is shown first
        more: dict[str, Any] = {"callback": _keep(attribute), "expose_value": False, "default": None}
        if hidden:
            more |= {"hidden": True, "envvar": None}
        function = option(name, **more)(function)
    return function


class Group(click.Group):
    """Its help tells the whole first sentence of each command, where click would cut it off. A command that does not
    exist is answered with the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            from lithify.cli.meant import meant

            name = error.command_name
            like = meant(name, self.list_commands(ctx), within=ctx.parent is not None)
            hint = f" Did you mean '{ctx.command_path} {like}'?" if like else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(limit=sys.maxsize)) for name, each in found if each])


class _Command(click.Command):
    """Refuses an option that takes one value and is given twice, where click would take the last: somebody who wants a
    key of two columns would get that of one. Of settings, which have a variable too, the last counts: a container's
    arguments come after those of its image."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            given = []  # click tells it below
        for each in given:
            once = isinstance(each, click.Option) and not (each.multiple or each.is_flag or each.envvar)
            if once and given.count(each) > 1:
                raise click.UsageError(f"{each.opts[-1]} takes one value, and was given twice", ctx=ctx)
        return super().parse_args(ctx, args)


def _topic_of(context: click.Context, values: Mapping[str, Any]) -> str | None:
    parent = context.parent
    named = values.get("name" if parent is not None and parent.info_name == "topic" else "topic")
    named = named or values.get("compaction_id", "").partition("/")[0]
    return named if isinstance(named, str) else None


def command(group: click.Group | None = None, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that gets the invocation as its first argument, and takes the flags of every command."""

    def make(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(*arguments: Any, **values: Any) -> Any:
            context = click.get_current_context()
            invocation = context.ensure_object(Invocation)
            invocation.topic = _topic_of(context, values)
            return function(invocation, *arguments, **values)

        wrapped = _take_everywhere(run, hidden=True)
        shaped = click.command(name, cls=_Command, epilog="Flags of every command: see 'lithify --help'.")(wrapped)
        if group is not None:
            group.add_command(shaped)
        return shaped

    return make
