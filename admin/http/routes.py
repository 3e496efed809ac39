"""The HTTP API as a table: what each request asks of `Admin` (docs/rfcs/0018). The server, its OpenAPI document and the
client are all made from it.

The arguments of a route are those of its `Admin` method. Those named in the path come from there; of the rest, a GET or
DELETE has them in its query, and a POST or PATCH in a JSON body.
"""

import functools
import inspect
import typing
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from lithify.admin.client import Admin
from lithify.admin.history import KeyHistory
from lithify.admin.http.access import Role
from lithify.admin.partitions import Answers
from lithify.admin.verify import VerifyReport

__all__ = ["ROUTES", "Parameter", "Route"]

Verb = Literal["GET", "POST", "PATCH", "DELETE"]


class Parameter(NamedTuple):
    """One argument of an `Admin` method, as a request has it."""

    argument: str
    name: str  # in the path, query, body or header
    place: Literal["path", "query", "body", "header"]
    type: Any
    required: bool
    default: Any


class Route(NamedTuple):
    verb: Verb
    path: str
    call: str  # the method of `Admin`
    role: Role
    status: int = 200
    names: Mapping[str, str] = {}  # of arguments that a request names otherwise
    location: str = ""  # where the answer can be asked for again: a path with names of its fields
    stricter: Mapping[str, Role] = {}  # the role that it takes to give these arguments

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return _parameters(self.call, self.path, self.verb, tuple(self.names.items()))

    @property
    def body(self) -> type[msgspec.Struct] | None:
        """The JSON body; None: there is none."""
        return _body(self.call, self.path, self.verb, tuple(self.names.items()))

    @property
    def answer(self) -> Any:
        """The type of what `Admin` returns."""
        return _hints(self.call)["return"]

    @property
    def lists(self) -> Any:
        """The type of the items, if the answer is a list that comes in pages; else None."""
        return get_args(self.answer)[0] if get_origin(self.answer) is Answers else None

    @property
    def summary(self) -> str:
        return (inspect.getdoc(getattr(Admin, self.call)) or "").partition("\n\n")[0].replace("\n", " ")


_TOPIC = "/v1/topics/{topic}"
_PARTITION = "/v1/topics/{topic}/partitions/{partition}"
_COMPACTION = "/v1/compactions/{topic}/{partition}/{job}"
_READ, _OPERATE, _ADMIN = Role.READ, Role.OPERATE, Role.ADMIN

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/topics", "topics", _READ),
    Route("POST", "/v1/topics", "create_topic", _ADMIN, 201, {"topic": "name"}, "/v1/topics/{topic}"),
    Route("GET", _TOPIC, "describe_topic", _READ),
    Route("PATCH", _TOPIC, "alter_topic", _ADMIN),
    Route("DELETE", _TOPIC, "delete_topic", _ADMIN),
    Route("GET", f"{_TOPIC}/config", "topic", _READ),
    Route("POST", f"{_TOPIC}/pause", "pause", _OPERATE),
    Route("POST", f"{_TOPIC}/resume", "resume", _OPERATE),
    Route("POST", f"{_TOPIC}/retry", "retry_topic", _OPERATE),
    Route("GET", f"{_TOPIC}/explain", "explain_topic", _READ),
    Route("GET", _PARTITION, "describe", _READ),
    Route("GET", f"{_PARTITION}/explain", "explain", _READ),
    Route("GET", f"{_PARTITION}/manifest", "manifest", _READ),
    Route("POST", f"{_PARTITION}/retry", "retry", _OPERATE),
    Route("POST", f"{_PARTITION}/delete-records", "delete_records", _ADMIN),
    Route("GET", f"{_PARTITION}/key", "history", _READ, names={"key": "key_base64"}, stricter={"values": _OPERATE}),
    Route("GET", f"{_TOPIC}/key", "history", _READ, names={"key": "key_base64"}, stricter={"values": _OPERATE}),
    # Compactions
    Route("POST", f"{_PARTITION}/compactions", "submit", _OPERATE, 202, location="/v1/compactions/{id}"),
    Route("GET", "/v1/compactions", "readable_compactions", _READ, names={"statuses": "status"}),
    Route("GET", _COMPACTION, "compaction", _READ),
    Route("DELETE", _COMPACTION, "cancel", _OPERATE, 202),
    # Homes
    Route("GET", f"{_PARTITION}/homes", "homes", _READ),
    Route("POST", f"{_PARTITION}/homes/relocate", "relocate", _OPERATE, 202, location="/v1/compactions/{id}"),
    Route("POST", f"{_PARTITION}/homes/recall", "recall", _OPERATE, 202, location="/v1/compactions/{id}"),
    # Checkpoints
    Route("GET", f"{_PARTITION}/checkpoints", "checkpoints", _READ),
    Route("POST", f"{_PARTITION}/checkpoints", "create_checkpoint", _OPERATE, 201),
    Route("DELETE", f"{_PARTITION}/checkpoints/{{name}}", "delete_checkpoint", _OPERATE),
    Route("GET", f"{_TOPIC}/checkpoints", "checkpoints", _READ),
    Route("POST", f"{_TOPIC}/checkpoints", "create_checkpoint", _OPERATE, 201),
    Route("DELETE", f"{_TOPIC}/checkpoints/{{name}}", "delete_checkpoint", _OPERATE),
    # Consumers and transactions
    Route("GET", f"{_TOPIC}/consumers", "consumers", _READ),
    Route("POST", f"{_TOPIC}/consumers/{{name}}/reset", "reset_consumer", _ADMIN),
    Route("DELETE", f"{_TOPIC}/consumers/{{name}}", "delete_consumer", _ADMIN),
    Route("GET", f"{_TOPIC}/transactions", "transactions", _READ),
    Route("DELETE", f"{_TOPIC}/transactions/{{application}}", "forget_transaction", _ADMIN),
    # The whole warehouse
    Route("POST", "/v1/gc", "gc", _OPERATE),
    Route("GET", "/v1/health", "health", _READ),
    Route("GET", "/v1/overview", "overview", _READ),
)

NOT_SERVED = {
    "adopt_home": "whoever adopts a home knows that the warehouse which had it is gone",
    "compactions": "readable_compactions has its route; a client puts the pages together",
    "manifest_file": "damaged bytes are looked at where the store is",
    "verify": "it reads every segment; `lithify verify` runs where the store is near",
}

_ID = ("topic", "partition", "job")  # of a compaction, whose id is these three
_HEADERS = {"idempotency_key": "Idempotency-Key"}
# Not over HTTP: a probe is for whoever opens a warehouse, and a collection without its grace period for whoever knows
# that nobody else uses it.
_LEFT_OUT = {"probe", "grace_ms"}


@functools.cache
def _hints(call: str) -> dict[str, Any]:
    names = {"KeyHistory": KeyHistory, "VerifyReport": VerifyReport}
    return typing.get_type_hints(getattr(Admin, call), localns=names)


@functools.cache
def _parameters(call: str, path: str, verb: Verb, names: tuple[tuple[str, str], ...]) -> tuple[Parameter, ...]:
    renamed, hints = dict(names), _hints(call)
    in_path = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    found: list[Parameter] = []
    for argument in list(inspect.signature(getattr(Admin, call)).parameters.values())[1:]:
        if argument.name in _LEFT_OUT:
            continue
        if argument.name == "id":
            types = {"topic": str, "partition": int, "job": str}
            found += (Parameter("id", name, "path", types[name], True, None) for name in _ID)
            continue
        name = renamed.get(argument.name, _HEADERS.get(argument.name, argument.name))
        required = argument.default is inspect.Parameter.empty
        place: Literal["path", "query", "body", "header"]
        if name in in_path:
            place, required = "path", True
        elif argument.name in _HEADERS:
            place = "header"
        else:
            place = "query" if verb in ("GET", "DELETE") else "body"
        default = None if required else argument.default
        found.append(Parameter(argument.name, name, place, hints[argument.name], required, default))
    return tuple(found)


@functools.cache
def _body(call: str, path: str, verb: Verb, names: tuple[tuple[str, str], ...]) -> type[msgspec.Struct] | None:
    if verb not in ("POST", "PATCH"):
        return None
    fields = [each for each in _parameters(call, path, verb, names) if each.place == "body"]
    if not fields:
        return None
    name = "".join(word.title() for word in call.split("_")) + ("InPartition" if "{partition}" in path else "")
    return msgspec.defstruct(
        f"{name}Request",
        [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in fields],
        kw_only=True,
        forbid_unknown_fields=True,
    )
