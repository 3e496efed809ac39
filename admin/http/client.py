"""`Admin` over HTTP: the same methods, types and errors, asked of a server (docs/rfcs/0018)."""

import base64
import functools
import inspect
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import urllib3

from lithify.admin.client import Admin
from lithify.admin.compactions import check_submission, split_id
from lithify.admin.history import check_key
from lithify.admin.http.paging import LIMIT_MAX
from lithify.admin.http.problems import Problem
from lithify.admin.http.routes import NOT_SERVED, ROUTES, Parameter, Route
from lithify.admin.partitions import Answers, Failed, only_partition
from lithify.admin.transactions import check_application
from lithify.log.checkpoints import check_checkpoint_name
from lithify.log.positions import check_consumer_name
from lithify.manifest.keys import check_topic_name
from lithify.store.driver import monotonic_ms, new_id
from lithify.store.errors import CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.short_repr import named_repr
from lithify.store.urls import shown

__all__ = ["RemoteAdmin", "Token"]

_CONNECT_S, _READ_S = 5.0, 60.0
ATTEMPTS = 3  # of a request that may be repeated
ANSWER_MS = 120_000  # from an answer's head to its end
_ANSWER_BYTES_MAX = 256 << 20  # of all pages of a list together
TOKEN_VARIABLE = "LITHIFY_HTTP_TOKEN"
CA_VARIABLE = "LITHIFY_HTTP_CA"

_PART_BYTES = 1 << 16
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_NOT_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)

T = TypeVar("T")


class Token(str):
    """A token that no traceback and no log shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Token(...)"


class _Page(msgspec.Struct, Generic[T]):
    items: tuple[T, ...]
    next: str | None = None
    failed: tuple[Failed, ...] = ()


class RemoteAdmin(Admin):
    """`Admin` of a served warehouse. `token`: by default that of LITHIFY_HTTP_TOKEN. LITHIFY_HTTP_CA names a PEM file
    of certificates to trust instead of this machine's. Thread-safe."""

    def __init__(self, warehouse: str, *, token: str | None = None) -> None:  # pyright: ignore[reportInconsistentConstructor]
        """Raises InvalidRequest; nothing is asked yet."""
        self.url = _checked(warehouse)
        self._token = Token(token or os.environ.get(TOKEN_VARIABLE, ""))
        if not self._token.isascii() or not self._token.isprintable():
            raise InvalidRequest("the server's token has characters that no token has: give it as its file has it")
        timeout = urllib3.Timeout(connect=_CONNECT_S, read=_READ_S)
        trust = _trusted(os.environ.get(CA_VARIABLE, "")) if self.url.startswith("https:") else None
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout, maxsize=8, ssl_context=trust)

    def __repr__(self) -> str:
        return named_repr(self, shown(self.url))

    def ready(self) -> None:
        """Raises what keeps the server from its work: it does not answer (Unavailable), or its store does not. Needs no
        token."""
        self._send("GET", "/readyz", [], {}, None, _ANSWER_BYTES_MAX)

    def ask(self, route: Route, values: Mapping[str, Any]) -> Any:
        """What the method of `route` returns for these arguments."""
        path, query, headers, body = _request(route, values)
        if not route.lists:
            return _decoded(self._send(route.verb, path, query, headers, body, _ANSWER_BYTES_MAX), route.answer)
        items: list[Any] = []
        failed: dict[tuple[str, int | None], Failed] = {}
        more: str | None = None
        left = _ANSWER_BYTES_MAX
        while True:
            pages = [("limit", str(LIMIT_MAX)), *([("cursor", more)] if more else [])] if route.verb == "GET" else []
            content = self._send(route.verb, path, [*query, *pages], headers, body, left)
            found = _decoded(content, _Page[route.lists])
            items += found.items
            failed |= {(each.topic, each.partition): each for each in found.failed}
            if found.next is not None and (found.next == more or not found.items):
                raise Unavailable(f"{self.url} answered with a list that has no end; check the URL, and proxies")
            more, left = found.next, left - len(content)
            if more is None:
                return Answers(items=tuple(items), failed=tuple(failed.values()))

    def _send(
        self,
        verb: str,
        path: str,
        query: list[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes | None,
        bytes_max: int,
    ) -> bytes:
        url = f"{self.url}{path}" + (f"?{_encoded(query)}" if query else "")
        headers = {"Accept": "application/json", **headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        may_repeat = verb == "GET" or "Idempotency-Key" in headers
        failure: Exception | None = None
        for _ in range(ATTEMPTS if may_repeat else 1):
            try:
                reply = self._pool.request(
                    verb,
                    url,
                    body=body,
                    headers=headers,
                    redirect=False,
                    preload_content=False,
                    decode_content=False,
                )
                content = self._content(reply, bytes_max)
            except urllib3.exceptions.HTTPError as error:
                failure = error
                continue
            if 200 <= reply.status < 300 and reply.headers.get("Content-Type", "").startswith("application/json"):
                return content
            raise _refusal(self.url, reply.status, content)
        raise self._silent(may_repeat, failure)

    def _content(self, reply: urllib3.BaseHTTPResponse, bytes_max: int) -> bytes:
        content, until_ms = bytearray(), monotonic_ms() + ANSWER_MS
        while part := reply.read1(_PART_BYTES):
            content += part
            if len(content) > bytes_max:
                reply.close()
                raise Unavailable(f"{self.url} answered with more than {_ANSWER_BYTES_MAX} bytes; ask for less at once")
            if monotonic_ms() > until_ms:
                reply.close()
                raise urllib3.exceptions.TimeoutError("the answer does not end")
        reply.release_conn()
        return bytes(content)

    def _silent(self, may_repeat: bool, failure: Exception | None) -> LithifyError:
        why = type(failure).__name__
        if failure is not None and failure.args and isinstance(failure.args[0], ssl.SSLCertVerificationError):
            found = failure.args[0].verify_message
            return InvalidRequest(
                f"the certificate of {self.url} is not trusted ({found}): name a PEM file of its CA in {CA_VARIABLE}"
            )
        if may_repeat or isinstance(failure, _NOT_SENT):
            return Unavailable(f"{self.url} does not answer ({why}); check that `lithify serve` runs there, and retry")
        return CommitUnknown(f"{self.url} did not answer ({why}), so it is not known whether this was done; look first")


def _trusted(path: str) -> ssl.SSLContext:
    """What a server's certificate is checked by. "": this machine's certificates, or those of SSL_CERT_FILE."""
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        why = "it is not a PEM file of certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidRequest(f"{CA_VARIABLE} names {path}, which cannot be read: {why}") from None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:  # half an IPv6 address, or no port's number
        raise InvalidRequest("give the URL of a lithify server, such as http://127.0.0.1:8480") from None
    if not fits or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidRequest("give the URL of a lithify server, such as http://127.0.0.1:8480")
    if parts.username or parts.password:
        raise InvalidRequest(f"give no password in a server's URL; its token comes from token= or {TOKEN_VARIABLE}")
    return url.rstrip("/")


def _refusal(url: str, status: int, content: bytes) -> LithifyError:
    try:
        problem = msgspec.json.decode(content, type=Problem)
        if problem.status != status:
            raise msgspec.DecodeError
        return problem.error()
    except _UNREADABLE:
        return Unavailable(f"{url} answered {status}, and not as a lithify server does; check the URL, and proxies")


def _decoded(content: bytes, type_: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=type_)
    except _UNREADABLE as error:
        detail = str(error)[:200]
        raise InvalidRequest(f"the server's answer is of another version of lithify ({detail}); use the same") from None


def _request(
    route: Route, values: Mapping[str, Any]
) -> tuple[str, list[tuple[str, str]], dict[str, str], bytes | None]:
    path, query, headers = route.path, list[tuple[str, str]](), dict[str, str]()
    body: dict[str, Any] = {}
    ids = str(values.get("id", "")).split("/", 2)
    for number, each in enumerate(route.parameters):
        value = ids[number] if each.argument == "id" else values[each.argument]
        if each.place == "path":
            path = path.replace(f"{{{each.name}}}", _segment(str(value)))
        elif each.required or value != each.default:
            match each.place:
                case "query":
                    query += [(each.name, text) for text in _texts(value)]
                case "header":
                    headers[each.name] = str(value)
                case _:
                    body[each.name] = value
    if route.call == "submit":  # its answer may be lost, and it is asked for again
        headers.setdefault("Idempotency-Key", new_id())
    content = msgspec.json.encode(body) if route.body is not None else None
    return path, query, headers, content


def _segment(text: str) -> str:
    """Clients and proxies take `.` and `..` for steps in the path."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _texts(value: Any) -> list[str]:
    match value:
        case None:
            return [""]
        case bool():
            return ["true" if value else "false"]
        case bytes():
            return [base64.b64encode(value).decode()]
        case list() | tuple():
            return [text for each in value for text in _texts(each)]
        case _:
            return [str(value)]


def _encoded(query: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)


def _remote(call: str) -> Callable[..., Any]:
    routes = sorted((each for each in ROUTES if each.call == call), key=lambda each: -_named(each))
    signature = inspect.signature(getattr(Admin, call))

    @functools.wraps(getattr(Admin, call))
    def ask(self: RemoteAdmin, *positional: Any, **named: Any) -> Any:
        bound = signature.bind(self, *positional, **named)
        bound.apply_defaults()
        values = bound.arguments
        _check(call, values)
        _refuse_others(routes[0], signature, values)
        if "partition" in values and values["partition"] is None and all(map(_of_partition, routes)):
            values["partition"] = only_partition(values["topic"], self.topic(values["topic"]).partitions)
        route = next(each for each in routes if all(values.get(p.argument) is not None for p in _in_path(each)))
        try:
            return self.ask(route, values)
        except UnicodeEncodeError:
            raise InvalidRequest(f"{call}: half a surrogate pair cannot be sent; give text") from None

    return ask


def _check(call: str, values: Mapping[str, Any]) -> None:
    """What is wrong in itself is refused as the operation would refuse it, before it becomes part of a path or header:
    there, `a/b` for a topic would name something else. Raises InvalidRequest."""
    if "name" in values:
        (check_checkpoint_name if "checkpoint" in call else check_consumer_name)(values["name"])
    if "application" in values:
        check_application(values["application"])
    if "key" in values:
        check_key(values["topic"], values["key"])
    if "sources" in values:
        check_submission(values["sources"], values["idempotency_key"])
    topic = split_id(values["id"])[0] if "id" in values else values.get("topic")
    if topic is not None:
        check_topic_name(topic)


def _in_path(route: Route) -> list[Parameter]:
    return [each for each in route.parameters if each.place == "path"]


def _of_partition(route: Route) -> bool:
    return any(each.argument == "partition" for each in _in_path(route))


def _named(route: Route) -> int:
    return len(_in_path(route))


def _refuse_others(route: Route, signature: inspect.Signature, values: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for an argument that no server takes."""
    served = {each.argument for each in route.parameters} | {"self"}
    for name, parameter in signature.parameters.items():
        if name not in served and values[name] != parameter.default:
            raise InvalidRequest(f"{name} is only for whoever opens the warehouse; a server does not take it")


def _not_served(call: str, why: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Admin, call))
    def refuse(*_: Any, **__: Any) -> Any:
        raise InvalidRequest(f"a server does not offer {call}: {why}")

    return refuse


for _call in {each.call for each in ROUTES}:
    setattr(RemoteAdmin, _call, _remote(_call))
for _call in NOT_SERVED.keys() - {"compactions"}:
    setattr(RemoteAdmin, _call, _not_served(_call, NOT_SERVED[_call]))
