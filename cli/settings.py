"""Every setting of the command line and its service: flag, variable, default, meaning.

Flags, `--help` and the table in docs/cli.md are made from this; a test compares the page.
"""

import shlex
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import click
import msgspec

__all__ = ["SETTINGS", "Setting", "option", "setting", "settings_table"]

F = TypeVar("F", bound=Callable[..., Any])

_INTERVAL_MS_MAX = 365 * 86_400_000


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting. `name` is dotted, like topic configuration; times in it are milliseconds."""

    name: str
    flag: str
    kind: Literal["text", "count", "ms", "switch", "choice"] = "text"
    default: str | int | bool | None = None
    default_text: str | None = None  # if there is no single default value
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    repeated: bool = False
    smallest: int = 0
    by_variable: bool = True  # False: the variable holds something else, and is read elsewhere
    commands: str  # that take the flag
    meaning: str

    @property
    def variable(self) -> str:
        return "LITHIFY_" + self.name.upper().replace(".", "_")

    @property
    def shown_default(self) -> str:
        if self.default_text is not None:
            return self.default_text
        if self.kind == "switch":
            return "on" if self.default else "off"
        return str(self.default)


_EVERYWHERE = "every command"
_DAEMON = "compactor run"
_COLLECTING = "compactor run, gc run"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="warehouse",
        flag="--warehouse",
        metavar="URL",
        default_text="none: required",
        commands=_EVERYWHERE,
        meaning="root of the warehouse: s3://bucket/prefix, file:///folder or a path",
    ),
    Setting(
        name="url",
        flag="--url",
        metavar="URL",
        default_text="none",
        commands=_EVERYWHERE,
        meaning="URL of a running `lithify serve`, which commands for operators ask instead of the store; its token is "
        "in LITHIFY_HTTP_TOKEN",
    ),
    Setting(
        name="storage.option",
        flag="--storage-option",
        metavar="NAME=VALUE",
        repeated=True,
        default_text="none",
        commands=_EVERYWHERE,
        meaning="option for reaching the store, named as in s3fs; dots denote nesting (client_kwargs.endpoint_url=…). "
        "The variable takes several, separated by spaces",
    ),
    Setting(
        name="json",
        flag="--json",
        kind="switch",
        default=False,
        commands=_EVERYWHERE,
        meaning="print one JSON document (records: one per line); errors are JSON too",
    ),
    Setting(
        name="wide",
        flag="--wide",
        kind="switch",
        default=False,
        commands=_EVERYWHERE,
        meaning="show every column of a table, even if the terminal is too narrow for it",
    ),
    Setting(
        name="log.format",
        flag="--log-format",
        kind="choice",
        choices=("text", "json"),
        default="text",
        commands=_EVERYWHERE,
        meaning="format of the log on standard error",
    ),
    Setting(
        name="log.level",
        flag="--log-level",
        kind="choice",
        choices=("debug", "info", "warning", "error"),
        default_text="info for a running service, else warning",
        commands=_EVERYWHERE,
        meaning="lowest level that is logged; debug shows where an unexpected error came from",
    ),
    Setting(
        name="batch.size",
        flag="--batch-size",
        kind="count",
        smallest=1,
        default=100_000,
        commands="append",
        meaning="most records in one batch, which is also limited to 32 MiB; a batch is one commit per partition",
    ),
    Setting(
        name="linger.ms",
        flag="--linger-ms",
        kind="ms",
        default=1_000,
        commands="append",
        meaning="how long a batch waits for more records, if they arrive through a pipe",
    ),
    Setting(
        name="engine",
        flag="--engine",
        kind="choice",
        choices=("spark", "local"),
        default="spark",
        commands="compactor run, verify, export, append",
        meaning="where the work runs. spark: on a Spark that this process starts, or on --master; it needs Java. "
        "local: in threads of this process, without Spark. Verify, and imports and exports of folders, use Spark "
        "from 1 GiB upward unless you choose",
    ),
    Setting(
        name="master",
        flag="--master",
        metavar="URL",
        default_text="local[*]",
        commands="compactor run, verify, export, append",
        meaning="Spark master, such as spark://host:7077, or a Spark Connect server, such as sc://host:15002",
    ),
    Setting(
        name="compactor.spark_conf",
        flag="--spark-conf",
        metavar="NAME=VALUE",
        repeated=True,
        default_text="none",
        commands="compactor run, verify, export, append",
        meaning="setting for the Spark session that is started, as in spark-submit --conf; it wins over "
        "spark-defaults.conf, and that over lithify's own. The variable takes several, separated by spaces; quote "
        "those that contain spaces",
    ),
    Setting(
        name="compactor.executor.wait.ms",
        flag="--executor-wait-ms",
        kind="ms",
        default=60_000,
        commands="compactor run, verify",
        meaning="how long work waits while a Spark cluster gives no executor at all; then it gives up, and a compactor "
        "tries again later",
    ),
    Setting(
        name="compactor.interval.ms",
        flag="--interval-ms",
        kind="ms",
        smallest=1,
        default=15_000,
        commands=_DAEMON,
        meaning="pause between two rounds; each round looks at every partition that does not rest",
    ),
    Setting(
        name="compactor.rest.ms",
        flag="--rest-ms",
        kind="ms",
        default=300_000,
        commands=_DAEMON,
        meaning="how late an append or request from another process may be noticed in a partition where nothing was "
        "due; the longer a partition has rested, the fewer of the rounds look at it. 0: every round looks at "
        "every partition",
    ),
    Setting(
        name="compactor.initial.delay.ms",
        flag="--initial-delay-ms",
        kind="ms",
        default=0,
        commands=_DAEMON,
        meaning="pause before the first round",
    ),
    Setting(
        name="compactor.concurrency",
        flag="--concurrency",
        kind="count",
        smallest=1,
        default=2,
        commands=_DAEMON,
        meaning="number of jobs that run at once; if all are long, one short job and one requested job may run in "
        "addition",
    ),
    Setting(
        name="compactor.parallelism",
        flag="--parallelism",
        kind="count",
        smallest=1,
        default_text="local: one per processor; spark: as many as its master runs",
        commands=_DAEMON,
        meaning="number of key ranges that all jobs of this process together work on at once; one of a short job may "
        "run in addition. Each takes a processor and up to 0.5 GB of memory, and a container sees all processors of "
        "its machine",
    ),
    Setting(
        name="compactor.bytes.in.flight",
        flag="--bytes-in-flight",
        kind="count",
        smallest=1,
        default_text="no limit",
        commands=_DAEMON,
        meaning="bytes that all jobs of this process together may read at once, not counting one short job; a larger "
        "job runs alone",
    ),
    Setting(
        name="compactor.probe",
        flag="--probe/--no-probe",
        kind="switch",
        default=True,
        commands="compactor run, topic create",
        meaning="probe the store when the service starts, and before the first topic of a warehouse is created",
    ),
    Setting(
        name="gc",
        flag="--gc/--no-gc",
        kind="switch",
        default=True,
        commands=_DAEMON,
        meaning="also collect garbage",
    ),
    Setting(
        name="gc.interval.ms",
        flag="--gc-interval-ms",
        kind="ms",
        smallest=1,
        default=600_000,
        commands=_COLLECTING,
        meaning="pause between two collections",
    ),
    Setting(
        name="gc.rest.ms",
        flag="--gc-rest-ms",
        kind="ms",
        default=3_600_000,
        commands=_COLLECTING,
        meaning="how long a collection may overlook new garbage in a partition that had none; the longer a partition "
        "has had none, the fewer of the collections look there. 0: every collection looks at every partition",
    ),
    Setting(
        name="gc.grace.ms",
        flag="--gc-grace-ms",
        kind="ms",
        default=3_600_000,
        commands=_COLLECTING,
        meaning="how long replaced data stays readable: at least 300000, or 0 if nothing else uses the warehouse",
    ),
    Setting(
        name="gc.sweep.interval.ms",
        flag="--gc-sweep-interval-ms",
        kind="ms",
        smallest=1,
        default=86_400_000,
        commands=_COLLECTING,
        meaning="how often a collection also lists every object and deletes orphans; the second collection is the "
        "first to do so",
    ),
    Setting(
        name="http",
        flag="--http",
        metavar="HOST:PORT",
        default_text="serve: 127.0.0.1:8480; compactor run: none",
        commands="serve, compactor run",
        meaning="address of the HTTP API, the dashboard and /metrics; port 0 takes a free one",
    ),
    Setting(
        name="http.tokens",
        flag="--http-tokens",
        metavar="FILE",
        by_variable=False,
        default_text="none",
        commands="serve, compactor run",
        meaning="file with one role:token a line, the role being read, operate or admin; it is read again when it "
        "changes. Or LITHIFY_HTTP_TOKENS holds such lines itself. Needed for any address that other machines can reach",
    ),
    Setting(
        name="http.host",
        flag="--http-host",
        metavar="NAME",
        repeated=True,
        default_text="none",
        commands="serve, compactor run",
        meaning="another name by which clients reach the server, such as that of a proxy; any other Host is refused. "
        "The variable takes several, separated by spaces",
    ),
    Setting(
        name="http.cert",
        flag="--http-cert",
        metavar="FILE",
        default_text="none: plain HTTP",
        commands="serve, compactor run",
        meaning="PEM file of the certificate to serve HTTPS with, and of its chain; it is read again when it changes",
    ),
    Setting(
        name="http.key",
        flag="--http-key",
        metavar="FILE",
        default_text="none",
        commands="serve, compactor run",
        meaning="PEM file of the certificate's key, without a passphrase",
    ),
    Setting(
        name="http.survey.ms",
        flag="--http-survey-ms",
        kind="ms",
        default=60_000,
        commands="serve, compactor run",
        meaning="how old the figures in /metrics and the overview may be before all partitions are read again; "
        "while nobody asks, nothing is read",
    ),
    Setting(
        name="http.metrics.topics",
        flag="--http-metrics-topics",
        kind="count",
        default=200,
        commands="serve, compactor run",
        meaning="how many topics have metrics of their own; those with the least to compact are summed as `_other`",
    ),
)

_BY_NAME = {each.name: each for each in SETTINGS}


class _Quoted(click.types.StringParamType):
    """Several values in one variable, split as a shell splits its words."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        try:
            return shlex.split(rv)
        except ValueError:
            raise click.BadParameter("a quotation mark has no partner in the variable") from None


def setting(name: str) -> Setting:
    return _BY_NAME[name]


def option(name: str, **more: Any) -> Callable[[F], F]:
    """The click option of a setting. `more` goes to click; its `default` replaces the setting's."""
    it = _BY_NAME[name]
    meaning = f"{it.meaning[0].upper()}{it.meaning[1:]}."
    attributes: dict[str, Any] = {
        "envvar": it.variable if it.by_variable else None,
        "show_envvar": it.by_variable,
        "default": it.default,
        "help": meaning,
    }
    match it.kind:
        case "count" | "ms":
            most = _INTERVAL_MS_MAX if it.kind == "ms" else None
            attributes |= {"type": click.IntRange(it.smallest, most), "show_default": it.default_text or True}
        case "choice":
            attributes |= {"type": click.Choice(it.choices), "show_default": it.default_text or True}
        case "switch":
            attributes |= {"is_flag": True, "show_default": it.default is True}
        case "text":
            attributes |= {"metavar": it.metavar, "multiple": it.repeated}
            attributes |= {"show_default": it.default_text} if it.name == "master" else {}
            attributes |= {"type": _Quoted()} if it.name == "compactor.spark_conf" else {}
    return click.option(it.flag, **(attributes | more))


def settings_table() -> str:
    """The table in docs/cli.md, as Markdown."""
    rows = ["| Flag | Variable | Default | Taken by | Meaning |", "|---|---|---|---|---|"]
    for each in SETTINGS:
        cells = (f"`{each.flag}{_takes(each)}`", f"`{each.variable}`", each.shown_default, each.commands, each.meaning)
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _takes(it: Setting) -> str:
    """What follows the flag. Not separated by '|', which would end the cell."""
    if it.choices:
        return " " + "/".join(it.choices)
    return f" {it.metavar}" if it.metavar else " N" if it.kind in ("count", "ms") else ""
