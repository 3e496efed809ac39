"""The HTTP server's application: requests in, answers of `Admin` out."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Served
from starlette.types import ASGIApp, Receive, Scope, Send

from lithify.admin.client import Admin
from lithify.admin.http.access import Known, Role
from lithify.admin.http.asked import TooSlow, arguments_of, body_of, events_of
from lithify.admin.http.dashboard import dashboard
from lithify.admin.http.few import Few
from lithify.admin.http.gate import HEADERS, Gate, pause
from lithify.admin.http.openapi import document
from lithify.admin.http.paging import page
from lithify.admin.http.problems import MEDIA_TYPE, Problem, problem_of, refusal
from lithify.admin.http.routes import ROUTES, Route
from lithify.admin.http.streams import EVENTS_TYPE, Stream, Streams
from lithify.admin.metrics import MEDIA_TYPE as MEDIA_TYPE_OF_METRICS
from lithify.store.errors import CommitUnknown, LithifyError, Unavailable

__all__ = ["Bounded", "Limits", "make_app"]

log = structlog.wrap_logger(logging.getLogger("lithify.http"))


class Limits(NamedTuple):
    body_bytes: int = 1 << 20
    request_s: float = 30.0
    reads: int = 48  # requests at once; more wait, for up to the time of a request
    changes: int = 16  # at once, besides: who may only read cannot keep a change from its turn
    guessers: int = 256  # wrong tokens that wait for their answer; more are answered at once


LIMITS = Limits()
STRANGERS_LINES_MAX = 60  # in a minute
PROBES = ("/healthz", "/readyz")  # asked by a machine that knows the address alone, however busy the server is
EVENTS = "/v1/events"
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class _Server:
    def __init__(self, admin: Admin, gate: Gate, limits: Limits) -> None:
        self._admin = admin
        self._gate = gate
        self._limits = limits
        self._reads = ThreadPoolExecutor(limits.reads, "lithify-http-read")
        self._changes = ThreadPoolExecutor(limits.changes, "lithify-http-change")
        self._streams = ThreadPoolExecutor(4, "lithify-http-stream")  # they take turns to begin, and may read for long
        self._probes = ThreadPoolExecutor(1, "lithify-http-probe")  # a probe does not wait for requests
        self._guessers = 0
        self._strangers = Few(STRANGERS_LINES_MAX)

    def handler(self, route: Route) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._guarded(request, route.role, lambda known: self._operate(request, route, known))

        return handle

    def events(self, streams: Streams) -> Handler:
        async def handle(request: Request) -> Response:
            async def answer(_: Known | None) -> Response:
                if request.method == "HEAD":
                    return _answer(200, b"", EVENTS_TYPE)
                asked = events_of(request)

                def admitted() -> bool:
                    return self._gate.admits(request.headers, Role.READ)

                return await self._in_thread(request, lambda: streams.begin(*asked, admitted), Stream.close)

            return await self._guarded(request, Role.READ, answer)

        return handle

    def open(self, media_type: str, content: bytes | Callable[[], bytes], role: Role | None) -> Handler:
        """A page for `role`; None: for everybody who reaches the address. Bytes are answered even if every thread is
        busy."""

        async def handle(request: Request) -> Response:
            async def answer(_: Known | None) -> Response:
                found = content if isinstance(content, bytes) else await self._in_thread(request, content)
                return _answer(200, found, media_type)

            return await self._guarded(request, role, answer)

        return handle

    async def refuse(self, request: Request, error: Exception) -> Response:
        """What no route answers."""
        foreign = self._gate.foreign(request.headers)
        if foreign is not None:
            return self._told(request, None, _problem(foreign))
        path = str(request.scope["path"])[:200]
        if isinstance(error, HTTPException) and error.status_code == 405 and _is_plain(request):
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
            async with asyncio.timeout(self._limits.request_s):
                answer = await work(known)
        except LithifyError as error:
            answer = _problem(problem_of(error), {"Retry-After": "1"} if error.http_status == 503 else {})
        except TimeoutError:
            answer = self._late(request)
        except ClientDisconnect:
            answer = _problem(refusal(400, "InvalidRequest", "the request ended before its body did"))
        except Exception as error:  # noqa: BLE001 - a bug: told by its type and place, without its message
            problem = problem_of(error)
            answer = _problem(problem)
            log.error("unexpected", method=request.method, path=_path(request), error=problem.detail)
        return self._told(request, known, answer)

    def _late(self, request: Request) -> Response:
        """What is told when a request's time is over."""
        within = f"within {self._limits.request_s:g} s"
        begun = getattr(request.state, "begun", None)
        if begun is None:
            return _problem(problem_of(TooSlow(f"the body did not arrive {within}; nothing was done")))
        if not begun:
            error: LithifyError = Unavailable(f"too many requests run; this one did not begin {within}")
        elif request.method in ("GET", "HEAD") or "Idempotency-Key" in request.headers:
            error = Unavailable(f"not done {within}; it may still be done")
        else:
            error = CommitUnknown(f"not done {within}; it may still be done: look before you repeat it")
        return _problem(problem_of(error), {"Retry-After": "5"})

    async def _in_thread(
        self, request: Request, work: Callable[[], T], unwanted: Callable[[T], object] | None = None
    ) -> T:
        """`unwanted` gets what `work` returns after the request was given up.

        SUBTLE! 1. The store hangs, and requests are given up. 2. Their threads still wait for the store. 3. If new
        requests had threads of their own, there would be more and more. So what is given up keeps its thread until it
        ends, and whoever comes then waits for one. Test: tests/admin/http/test_limits.py"""
        task = self._threads_of(request).submit(work)
        request.state.begun = False
        try:
            return await asyncio.wrap_future(task)
        except asyncio.CancelledError:
            request.state.begun = not task.cancel()
            if unwanted is not None:
                task.add_done_callback(lambda done: _give(done, unwanted))
            raise

    def _threads_of(self, request: Request) -> ThreadPoolExecutor:
        if request.scope["path"] in PROBES:
            return self._probes
        if request.scope["path"] == EVENTS:
            return self._streams
        return self._reads if request.method in ("GET", "HEAD") else self._changes

    def _told(self, request: Request, known: Known | None, answer: Response) -> Response:
        """An audit line for everything that asks for a change; of those without a token in force, for some."""
        if request.method not in ("GET", "HEAD"):
            left_out = 0 if known else self._strangers.left_out("audit")
            if left_out is None:
                return answer
            role, name = (known.role.word, known.name) if known else ("", "")
            asked = {"method": request.method, "path": _path(request)}
            more = {"left_out": left_out} if left_out else {}
            log.info("audit", role=role, token=name, **asked, status=answer.status_code, **more)
        return answer

    async def _operate(self, request: Request, route: Route, known: Known | None) -> Response:
        body = await body_of(request, route, self._limits.body_bytes)
        arguments, limit, cursor = arguments_of(route, request, body)
        for name, role in route.stricter.items():
            if arguments.get(name) and (known is None or known.role < role):
                return _problem(refusal(403, "Forbidden", f"{name} takes the role {role.word}"))
        call = getattr(self._admin, route.call)
        found = await self._in_thread(request, lambda: _encoded(route, call(**arguments), limit, cursor))
        return _answer(route.status, *found)


def _give(done: Future[T], to: Callable[[T], object]) -> None:
    if not done.cancelled() and done.exception() is None:
        to(done.result())


def _path(request: Request) -> str:
    """As the request has it: `request.url` would be made from the Host, too, which a foreign request chooses."""
    path = str(request.scope["path"])[:300]
    return path if path.isprintable() else repr(path)  # whoever reads the log may not escape it


def _is_plain(request: Request) -> bool:
    """No name holds anything else; and a pattern of Starlette also fits a path with a newline at its end."""
    return str(request.scope["path"]).isprintable()


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


def make_app(
    admin: Admin,
    gate: Gate,
    ready: Callable[[], object],
    streams: Streams,
    limits: Limits = LIMITS,
    metrics: Callable[[], bytes] | None = None,
) -> Starlette:
    """`ready` raises a LithifyError if the store does not answer. `metrics`: the text of /metrics."""
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
    by_path[EVENTS] = {"GET": server.events(streams)}
    pages: list[tuple[str, bytes | Callable[[], bytes], Role | None]] = [
        ("/openapi.json", described, Role.READ),
        ("/healthz", alive, None),  # asked by a machine that knows the address alone
        ("/readyz", is_ready, None),
    ]
    for path, content, role in pages:
        by_path[path] = {"GET": server.open("application/json", content, role)}
    if metrics is not None:
        by_path["/metrics"] = {"GET": server.open(MEDIA_TYPE_OF_METRICS, metrics, Role.READ)}
    for path, (media_type, file) in dashboard().items():  # open: it holds nothing, and asks for a token if it needs one
        by_path[path] = {"GET": server.open(media_type, file, None)}
    routes = [Served(path, _by_verb(handlers), methods=[*handlers]) for path, handlers in by_path.items()]
    app = Starlette(routes=routes, exception_handlers={404: server.refuse, 405: server.refuse})
    app.router.redirect_slashes = False  # it would send whoever asks to the host that the request names
    return app


class Bounded:
    """`app`, but whatever comes while the server `is_full` is told so. Not a probe: a process whose probe fails
    is restarted, with all that it does."""

    def __init__(self, app: ASGIApp, is_full: Callable[[], bool]) -> None:
        self._app = app
        self._is_full = is_full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and scope["path"] not in PROBES and self._is_full():
            problem = problem_of(Unavailable("the server has as many connections as it takes; retry later"))
            answer = _problem(problem, {"Retry-After": "1", "Connection": "close"})
        await answer(scope, receive, send)


def _pattern(path: str) -> str:
    """Names that users choose may hold a slash."""
    return re.sub(r"{(name|application)}", r"{\1:path}", path)


def _by_verb(handlers: Mapping[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        if not _is_plain(request):
            raise HTTPException(404)
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle
