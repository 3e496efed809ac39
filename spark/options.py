"""What `option(...)` may say (docs/spark.md): names, values, and which of them go together. Pure.

Names are compared without case and underscores: `offset_from`, `offsetFrom` and `OFFSETFROM` are one option, because
streams hand them over in lower case.
"""

import base64
import binascii
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lithify.log.names import NAME_CHARACTERS_MAX
from lithify.manifest.model import PARTITIONS_MAX, UPLOAD_TTL_MS_MAX
from lithify.store.errors import InvalidRequest

__all__ = [
    "COLUMNS",
    "Common",
    "ReadOptions",
    "StreamReadOptions",
    "WriteOptions",
    "columns_of",
    "read_options",
    "stream_options",
    "write_options",
]

COLUMNS = ("key", "value", "offset", "timestamp_ms", "headers", "partition")
"""Of what is read, in this order unless `columns` says otherwise."""

_DAY_MS = 86_400_000
_LONG_MAX = (1 << 63) - 1
_COMMON = ("topic", "path", "storage_options")
_READ = (
    *("view", "partition", "offset_from", "offset_to", "key_from", "key_to", "key_format", "checkpoint", "manifest"),
    *("tombstones", "columns", "tasks", "pin"),
)
_STREAM_READ = ("starting_offsets", "max_offsets_per_trigger", "fail_on_data_loss", "columns", "rows_per_task")
_WRITE = ("txn_app_id", "txn_version", "upload_ttl_ms", "commit_wait_ms")
_STREAM_WRITE = ("upload_ttl_ms", "commit_wait_ms")
_SPARKS_OWN = {"checkpointlocation", "queryname", "outputmode", "triggerinterval", "trigger"}
_APPLICATION_MAX = NAME_CHARACTERS_MAX - len(f" over {PARTITIONS_MAX}")  # a partition's name of it ends so
_NOT_SECRET = {"ssekmskeyid", "bucketkeyenabled"}  # they name a key of KMS, and hold none
_SECRETS = ("key", "secret", "token", "password", "credential", "passphrase", "sas")


@dataclass(frozen=True)
class Common:
    """`warehouse`: a URL as for `lithify.open`. `storage_options` as there, without anything secret."""

    warehouse: str
    topic: str
    storage_options: dict[str, Any]


@dataclass(frozen=True)
class ReadOptions:
    common: Common
    view: Literal["latest", "log"] = "latest"
    partitions: tuple[int, ...] | None = None
    offset_from: int = 0
    offset_to: int | None = None
    key_from: bytes | None = None
    key_to: bytes | None = None
    checkpoint: str | None = None
    manifests: tuple[int, ...] | None = None
    tombstones: bool = False
    columns: tuple[str, ...] = COLUMNS
    tasks: int | None = None
    pin: bool = True


@dataclass(frozen=True)
class StreamReadOptions:
    """`starting`: "earliest", "latest", or an offset for some partitions, where the others begin at the start."""

    common: Common
    starting: Literal["earliest", "latest"] | dict[int, int] = "earliest"
    rows_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = COLUMNS
    rows_per_task: int = 1_000_000


@dataclass(frozen=True)
class WriteOptions:
    common: Common
    txn: tuple[str, int] | None = None
    upload_ttl_ms: int = _DAY_MS
    commit_wait_ms: int = 60_000


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises InvalidRequest, as do the other two."""
    told = _Told(given, (*_COMMON, *_READ), "read")
    partitions = told.numbers("partition")
    manifests = told.numbers("manifest")
    if manifests is not None and told.text("checkpoint") is not None:
        raise InvalidRequest("options manifest and checkpoint both say what is read: give one of them")
    if manifests is not None and partitions is not None and len(manifests) != len(partitions):
        raise InvalidRequest(f"option manifest has {len(manifests)} numbers for {len(partitions)} partitions: one each")
    found = ReadOptions(
        told.common(),
        told.choice("view", ("latest", "log"), "latest"),
        partitions,
        told.number("offset_from", 0),
        told.number("offset_to", None),
        told.key("key_from"),
        told.key("key_to"),
        told.text("checkpoint"),
        manifests,
        told.flag("tombstones", False),
        told.columns(),
        told.number("tasks", None, least=1),
        told.flag("pin", True),
    )
    if found.view == "log" and told.has("tombstones"):
        raise InvalidRequest("option tombstones is for view=latest: the log always has its tombstones")
    _check_range("offset", found.offset_from, found.offset_to)
    _check_range("key", found.key_from, found.key_to)
    return found


def stream_options(given: Mapping[str, str]) -> StreamReadOptions:
    told = _Told(given, (*_COMMON, *_STREAM_READ, "view"), "readStream")
    if told.choice("view", ("log", "latest"), "log") == "latest":
        raise InvalidRequest("a stream reads view=log: view=latest has no order in which it grows")
    return StreamReadOptions(
        told.common(),
        _starting(told.text("starting_offsets")),
        told.number("max_offsets_per_trigger", None, least=1),
        told.flag("fail_on_data_loss", True),
        told.columns(),
        told.number("rows_per_task", 1_000_000, least=1),
    )


def write_options(given: Mapping[str, str], *, stream: bool = False) -> WriteOptions:
    told = _Told(given, (*_COMMON, *(_STREAM_WRITE if stream else _WRITE)), "writeStream" if stream else "write")
    application, version = told.text("txn_app_id"), told.number("txn_version", None)
    if (application is None) != (version is None):
        raise InvalidRequest("options txnAppId and txnVersion go together: give both, or neither")
    if application is not None and not (len(application) <= _APPLICATION_MAX and application.isprintable()):
        raise InvalidRequest(f"option txnAppId must be 1 to {_APPLICATION_MAX} printable characters")
    return WriteOptions(
        told.common(),
        None if application is None or version is None else (application, version),
        told.number("upload_ttl_ms", _DAY_MS, least=1, most=UPLOAD_TTL_MS_MAX),
        told.number("commit_wait_ms", 60_000),
    )


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _check_range(what: str, low: Any, high: Any) -> None:
    if low is not None and high is not None and low > high:
        raise InvalidRequest(f"option {what}_from lies after {what}_to: a range runs from its first to before its last")


def _starting(text: str | None) -> Literal["earliest", "latest"] | dict[int, int]:
    if text is None or text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    ok = (
        isinstance(found, dict)
        and found
        and all(
            str(number).isdecimal() and type(offset) is int and 0 <= offset <= _LONG_MAX
            for number, offset in found.items()
        )
    )
    if not ok:
        raise InvalidRequest(
            'option startingOffsets must be earliest, latest, or offsets by partition as JSON, as {"0": 500, "1": 0}'
        )
    return {int(number): offset for number, offset in sorted(found.items(), key=lambda item: int(item[0]))}


class _Told:
    """The options of one read or write, each looked at in one way. Refuses a name that is not in `names`."""

    def __init__(self, given: Mapping[str, str], names: tuple[str, ...], use: str) -> None:
        self._values: dict[str, str] = {}
        known = {_plain(name): name for name in names}
        for name, value in given.items():
            plain = _plain(name)
            if plain in known:
                if known[plain] in self._values:
                    raise InvalidRequest(f"option {known[plain]} is given twice, as {name!r} too: give it once")
                self._values[known[plain]] = value
            elif plain == "paths":
                raise InvalidRequest(f"{use} takes one warehouse: load(URL), not load([URL, URL])")
            elif plain not in _SPARKS_OWN:
                near = difflib.get_close_matches(plain, known, 1)
                meant = f" (did you mean {known[near[0]]}?)" if near else ""
                raise InvalidRequest(f"{use} knows no option {name!r}{meant}; it takes {', '.join(names)}")

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        found = self._values.get(name)
        if found == "":
            raise InvalidRequest(f"option {name} is empty: leave it out, or give it a value")
        return found

    def number(self, name: str, default: Any, least: int = 0, most: int = _LONG_MAX) -> Any:
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
            bounds = f"from {least}" if most == _LONG_MAX else f"from {least} to {most}"
            raise InvalidRequest(f"option {name} must be an integer {bounds}, not {text!r}")
        return int(text)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        text = self.text(name)
        if text is None:
            return None
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isascii() and part.isdecimal() and int(part) <= _LONG_MAX for part in parts):
            raise InvalidRequest(f"option {name} must be numbers from 0, as 0 or 0,2,5; not {text!r}")
        found = tuple(map(int, parts))
        if name == "partition" and len(set(found)) != len(found):
            raise InvalidRequest(f"option partition names a partition twice: {text!r}")
        return found

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidRequest(f"option {name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> Any:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise InvalidRequest(f"option {name} must be {' or '.join(choices)}, not {text!r}")
        return text

    def key(self, name: str) -> bytes | None:
        """The value of a key is a record's content: no error quotes it."""
        spelled = self.choice("key_format", ("utf8", "base64"), "utf8")
        text = self._values.get(name)
        if text is None:
            return None
        if spelled == "utf8":
            return text.encode()
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest(f"option {name} is not base64, which key_format says it is") from None

    def columns(self) -> tuple[str, ...]:
        text = self.text("columns")
        if text is None:
            return COLUMNS
        names = tuple(part.strip() for part in text.split(","))
        unknown = [name for name in names if name not in COLUMNS]
        if unknown or len(set(names)) != len(names):
            raise InvalidRequest(f"option columns must be some of {', '.join(COLUMNS)}, each once; not {text!r}")
        return names

    def common(self) -> Common:
        topic, path = self.text("topic"), self.text("path")
        if topic is None:
            raise InvalidRequest(
                'no topic given: add .option("topic", NAME). Of a table (CREATE TABLE … USING lithify) Spark passes no '
                "option on: use CREATE TEMPORARY VIEW"
            )
        if path is None:
            raise InvalidRequest("no warehouse given: load(URL) or save(URL) names it, or in SQL the option path")
        return Common(path, topic, _storage(self.text("storage_options")))


def _storage(text: str | None) -> dict[str, Any]:
    """SUBTLE! Options are plain text in Spark's event log, its UI, and each query plan: nothing secret may be there.
    Test: tests/spark/test_options.py"""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest('option storage_options must be a JSON object, as {"endpoint_url": "http://host:9000"}')
    for name in _names(found):
        if _plain(name) not in _NOT_SECRET and any(secret in name.lower() for secret in _SECRETS):
            raise InvalidRequest(
                f"storage option {name} may be secret, and Spark would write it into its event log: give credentials "
                "to the driver and the executors in another way, as environment variables or an instance's role"
            )
    return found


def _names(value: Any) -> list[str]:
    """Of a JSON value, at every depth."""
    if isinstance(value, dict):
        return [name for key, inner in value.items() for name in (str(key), *_names(inner))]
    return [name for inner in value for name in _names(inner)] if isinstance(value, list) else []


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that are read, by options of a read or of a stream; the other options are checked later, when it is
    known which of them it is."""
    columns = {name: value for name, value in given.items() if _plain(name) == "columns"}
    return _Told(columns, ("columns",), "read").columns()
