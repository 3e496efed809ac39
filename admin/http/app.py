"""The HTTP server's application: requests in, answers of `Admin` out."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Served

from lithify.admin.client import Admin
from lithify.admin.http.access import Known, Role
from lithify.admin.http.dashboard import dashboard
from lithify.admin.http.gate import HEADERS, Gate, pause
from lithify.admin.http.openapi import document
from lithify.admin.http.paging import LIMIT, page
from lithify.admin.http.problems import MEDIA_TYPE, Problem, problem_of, refusal
from lithify.admin.http.routes import ROUTES, Parameter, Route
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable

__all__ = ["Limits", "make_app"]

log = structlog.wrap_logger(logging.getLogger("lithify.http"))


class Limits(NamedTuple):
    body_bytes: int = 1 << 20
    request_s: float = 30.0
    requests: int = 64  # at once; more wait, for up to the time of a request
    guessers: int = 256  # wrong tokens that wait for their answer; more are answered at once


LIMITS = Limits()
Handler = Callable[[Request], Awaitable[Response]]


class _Server:
    def __init__(self, admin: Admin, gate: Gate, limits: Limits) -> None:
        self._admin = admin
        self._gate = gate
        self._limits = limits
        self._threads = anyio.CapacityLimiter(limits.requests)
        self._guessers = 0

    def handler(self, route: Route) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._guarded(request, route.role, lambda known: self._operate(request, route, known))

        return handle

    def open(self, media_type: str, content: Callable[[], bytes], role: Role | None) -> Handler:
        """A page for `role`; None: for everybody who reaches the address."""

        async def handle(request: Request) -> Response:
            async def answer(_: Known | None) -> Response:
                return _answer(200, await anyio.to_thread.run_sync(content, limiter=self._threads), media_type)

            return await self._guarded(request, role, answer)

        return handle

    async def refuse(self, request: Request, error: Exception) -> Response:
        """What no route answers."""
        foreign = self._gate.foreign(request.headers)
        if foreign is not None:
            return self._told(request, None, _problem(foreign))
        path = request.url.path[:200]
        if isinstance(error, HTTPException) and error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"{request.method} is not for {path!r}; it takes {allowed}"
            return _problem(refusal(405, "MethodNotAllowed", detail), {"Allow": allowed})
        return _problem(refusal(404, "NotFound", f"there is no {path!r} here; /openapi.json lists what there is"))

    async def _guarded(
        self, request: Request, role: Role | None, work: Callable[[Known | None], Awaitable[Response]]
    ) -> Response:
        known: Known | None = None
        if role is not None:
            foreign = self._gate.foreign(request.headers)
            if foreign is not None:
                return self._told(request, None, _problem(foreign))
            sender = request.client.host if request.client else ""
            entered = self._gate.enter(request.headers, sender, role)
            known = entered.known
            if entered.problem is not None:
                if self._guessers < self._limits.guessers:
                    self._guessers += 1
                    try:
                        await pause(entered.wait_ms)
                    finally:
                        self._guessers -= 1
                return self._told(request, known, _problem(entered.problem, entered.headers))
        try:
            with anyio.fail_after(self._limits.request_s):
                answer = await work(known)
        except LithifyError as error:
            answer = _problem(problem_of(error), {"Retry-After": "1"} if error.http_status == 503 else {})
        except TimeoutError:
            detail = f"not done within {self._limits.request_s:g} s; it may still be done"
            answer = _problem(problem_of(Unavailable(detail)), {"Retry-After": "5"})
        except ClientDisconnect:
            answer = _problem(refusal(400, "InvalidRequest", "the request ended before its body did"))
        except Exception as error:  # noqa: BLE001 - a bug: told by its type and place, without its message
            problem = problem_of(error)
            answer = _problem(problem)
            log.error("unexpected", method=request.method, path=request.url.path[:300], error=problem.detail)
        return self._told(request, known, answer)

    def _told(self, request: Request, known: Known | None, answer: Response) -> Response:
        """An audit line for everything that asks for a change."""
        if request.method not in ("GET", "HEAD"):
            role, name = (known.role.word, known.name) if known else ("", "")
            path = request.url.path[:300]
            log.info("audit", role=role, token=name, method=request.method, path=path, status=answer.status_code)
        return answer

    async def _operate(self, request: Request, route: Route, known: Known | None) -> Response:
        body = await self._body(request, route)
        arguments, limit, cursor = _arguments(route, request, body)
        for name, role in route.stricter.items():
            if arguments.get(name) and (known is None or known.role < role):
                return _problem(refusal(403, "Forbidden", f"{name} takes the role {role.word}"))
        call = getattr(self._admin, route.call)
        found = await anyio.to_thread.run_sync(
            lambda: _encoded(route, call(**arguments), limit, cursor), limiter=self._threads, abandon_on_cancel=True
        )
        return _answer(route.status, *found)

    async def _body(self, request: Request, route: Route) -> Any:
        most = self._limits.body_bytes
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise _TooLarge(f"the body is larger than {most} bytes")
        if request.method in ("GET", "DELETE"):
            return None
        if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _NotJson("give the body as application/json")
        if route.body is None:
            if body not in (b"", b"{}"):
                raise InvalidRequest("this request takes no body")
            return None
        try:
            return msgspec.json.decode(body or b"{}", type=route.body)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"body: {_where(error)}") from None


class _TooLarge(InvalidRequest):
    http_status = 413


class _NotJson(InvalidRequest):
    http_status = 415


def _where(error: msgspec.DecodeError) -> str:
    """msgspec's text names fields and types, never values."""
    return str(error)[:300]


def _arguments(route: Route, request: Request, body: Any) -> tuple[dict[str, Any], int, str | None]:
    """Of the method; and which page. Raises InvalidRequest."""
    query = request.query_params
    pages = bool(route.lists) and route.verb == "GET"
    named = {each.name for each in route.parameters if each.place == "query"} | (
        {"limit", "cursor"} if pages else set()
    )
    unknown = sorted(set(query) - named)
    if unknown:
        known = f"; it takes {', '.join(sorted(named))}" if named else "; it takes none"
        raise InvalidRequest(f"query: there is no {unknown[0][:100]!r} here{known}")
    arguments: dict[str, Any] = {}
    ids: list[str] = []
    for each in route.parameters:
        match each.place:
            case "path" if each.argument == "id":
                ids.append(str(request.path_params[each.name]))
            case "path":
                arguments[each.argument] = _converted(each, request.path_params[each.name])
            case "query":
                given = query.getlist(each.name)
                if given:
                    arguments[each.argument] = _converted(each, given if _takes_many(each) else given[-1])
                elif each.required:
                    raise InvalidRequest(f"query: {each.name} is missing")
            case "header":
                value = request.headers.get(each.name)
                if value is not None:
                    arguments[each.argument] = value
            case "body":
                arguments[each.argument] = getattr(body, each.name)
    if ids:
        arguments["id"] = "/".join(ids)
    limit = _converted(_LIMIT, query["limit"]) if pages and "limit" in query else LIMIT
    return arguments, limit, query.get("cursor") if pages else None


_LIMIT = Parameter("limit", "limit", "query", int, False, LIMIT)


def _takes_many(each: Parameter) -> bool:
    return isinstance(each.default, tuple)


def _converted(each: Parameter, given: Any) -> Any:
    if given == "" and each.default is None and not each.required:
        return None
    if given == "" and each.place == "query" and not each.required and each.type is not bytes:
        return None if type(None) in getattr(each.type, "__args__", ()) else each.default
    try:
        return msgspec.convert(given, each.type, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{each.name}: {_where(error)}") from None


def _encoded(route: Route, found: Any, limit: int, cursor: str | None) -> tuple[bytes, str, dict[str, str]]:
    """In the thread that asked: a large answer takes its time."""
    headers: dict[str, str] = {}
    if route.location:
        headers["Location"] = re.sub(r"{(\w+)}", lambda name: str(getattr(found, name[1])), route.location)
    if route.lists:
        pages = route.verb == "GET"
        shown = page(found.items, limit, cursor) if pages else None
        found = {
            "items": shown.items if shown else found.items,
            "next": shown.next if shown else None,
            **({"failed": found.failed} if found.failed else {}),
        }
    return msgspec.json.encode(found), "application/json", headers


def _answer(status: int, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, {**HEADERS, **(headers or {})}, media_type)


def _problem(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return _answer(problem.status, msgspec.json.encode(problem), MEDIA_TYPE, headers)


def make_app(admin: Admin, gate: Gate, ready: Callable[[], object], limits: Limits = LIMITS) -> Starlette:
    """`ready` raises a LithifyError if the store does not answer."""
    server = _Server(admin, gate, limits)
    described, alive = msgspec.json.encode(document()), msgspec.json.encode({"status": "ok"})

    def is_ready() -> bytes:
        try:
            ready()
        except LithifyError:  # what is wrong with the store is not for everybody; the log has it
            raise Unavailable("the store does not answer, or refuses access") from None
        return alive

    by_path: dict[str, dict[str, Handler]] = {}
    for route in ROUTES:
        by_path.setdefault(_pattern(route.path), {})[route.verb] = server.handler(route)
    pages: list[tuple[str, Callable[[], bytes], Role | None]] = [
        ("/openapi.json", lambda: described, Role.READ),
        ("/healthz", lambda: alive, None),  # asked by a machine that knows the address alone
        ("/readyz", is_ready, None),
    ]
    for path, content, role in pages:
        by_path[path] = {"GET": server.open("application/json", content, role)}
    for path, (media_type, file) in dashboard().items():  # open: it holds nothing, and asks for a token if it needs one
        by_path[path] = {"GET": server.open(media_type, lambda file=file: file, None)}
    routes = [Served(path, _by_verb(handlers), methods=[*handlers]) for path, handlers in by_path.items()]
    return Starlette(routes=routes, exception_handlers={404: server.refuse, 405: server.refuse})


def _pattern(path: str) -> str:
    """Names that users choose may hold a slash."""
    return re.sub(r"{(name|application)}", r"{\1:path}", path)


def _by_verb(handlers: Mapping[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle
