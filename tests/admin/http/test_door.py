"""Every route that the application has, asked by everybody: who is let in, who is not, and what each is told."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lithify.admin.http.access import Door, Role
from lithify.admin.http.app import make_app
from lithify.admin.http.dashboard import dashboard
from lithify.admin.http.gate import HEADERS, Gate
from lithify.admin.http.routes import ROUTES
from lithify.admin.http.streams import Streams
from lithify.events.feed import Feed
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from tests.admin.served import ADMIN, OPERATE, READ, TOKENS, WRONG, Recorder, Reply, Served, served

# Each page that is no operation is named here, with the role that it takes (None: none).
PAGES = {"/openapi.json": Role.READ, "/healthz": None, "/readyz": None, "/metrics": Role.READ, "/v1/events": Role.READ}
PAGES |= dict.fromkeys(dashboard())  # it holds nothing
EXAMPLES = {
    "topic": "users",
    "partition": 0,
    "job": "000000000042-1a2b3c4d",
    "name": "mine",
    "application": "nightly",
    "before_offset": 1,
    "to": "latest",
    "key_base64": "aw==",
}
TOKEN_ROLES = {None: 0, WRONG: 0, READ: Role.READ, OPERATE: Role.OPERATE, ADMIN: Role.ADMIN}
HOSTS = {"own": True, "evil.example": False}
ORIGINS = {"": True, "own": True, "http://evil.example": False, "null": False}


class Asked(NamedTuple):
    verb: str
    path: str
    body: bytes | None
    role: Role | None
    call: str


def walked() -> list[Asked]:
    """From the router, so that a route which somebody adds is asked, too."""
    streams = Streams(Feed(Driver(MemoryStore())))
    gate = Gate(Door(["127.0.0.1"], True), None)
    app = make_app(Recorder(), gate, lambda: None, streams, metrics=lambda: b"")  # type: ignore[arg-type]
    found: list[Asked] = []
    for served_route in app.routes:
        path = re.sub(r"{(\w+):\w+}", r"{\1}", served_route.path)  # type: ignore[attr-defined]
        for verb in sorted(served_route.methods):  # type: ignore[attr-defined]
            route = next((it for it in ROUTES if (it.verb, it.path) == ("GET" if verb == "HEAD" else verb, path)), None)
            if route is None:
                assert path in PAGES, f"say in PAGES which role {path} takes"
                found.append(Asked(verb, path, None, PAGES[path], ""))
                continue
            query = [f"{it.name}={EXAMPLES[it.name]}" for it in route.parameters if it.place == "query" and it.required]
            body = {it.name: EXAMPLES[it.name] for it in route.parameters if it.place == "body" and it.required}
            asked = "?".join([path.format_map(EXAMPLES), *query])
            found.append(Asked(verb, asked, json.dumps(body).encode() if body else None, route.role, route.call))
    return found


WALKED = walked()


def test_every_route_is_walked() -> None:
    assert {(it.verb, it.call) for it in WALKED} >= {(route.verb, route.call) for route in ROUTES}


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def guarded(recorder: Recorder) -> Iterator[Served]:
    with served(recorder, TOKENS) as found:
        yield found


@pytest.fixture(scope="module")
def local(recorder: Recorder) -> Iterator[Served]:
    with served(recorder) as found:
        yield found


def expected(asked: Asked, role: int, host: bool, origin: bool, *, known: bool = True) -> int:
    if asked.role is None:
        return 200
    if not host:
        return 421
    if not origin:
        return 403
    if not role:
        return 401
    return 403 if role < asked.role else 404 if asked.call else 200


def check(asked: Asked, reply: Reply, status: int) -> None:
    assert reply.status == status
    assert {name: reply.headers.get(name.lower()) for name in HEADERS} == HEADERS
    assert "server" not in reply.headers
    if asked.verb == "HEAD":
        assert reply.body == b""
    elif status >= 400:
        assert reply.is_problem
    assert ("www-authenticate" in reply.headers) == (status == 401)
    for secret in (READ, OPERATE, ADMIN, WRONG):
        assert secret not in str(reply)


def sent(server: Served, asked: Asked, token: str | None, host: str, origin: str) -> Reply:
    own = {"own": server.authority}
    headers = {"Host": own.get(host, host)}
    if origin:
        headers["Origin"] = server.url if origin == "own" else origin
    return server(asked.verb, asked.path, asked.body, headers, token=token)


@pytest.mark.slow
@pytest.mark.parametrize("asked", WALKED, ids=lambda it: f"{it.verb} {it.path}")
def test_who_is_let_in(asked: Asked, guarded: Served, recorder: Recorder) -> None:
    for (token, role), (host, ours), (origin, same) in itertools.product(
        TOKEN_ROLES.items(), HOSTS.items(), ORIGINS.items()
    ):
        before = len(recorder.calls)
        status = expected(asked, role, ours, same)
        check(asked, sent(guarded, asked, token, host, origin), status)
        done = [name for name, _ in recorder.calls[before:]]
        assert done == ([asked.call] if status == 404 else []), "nothing is done for whoever is refused"


@pytest.mark.parametrize("asked", WALKED, ids=lambda it: f"{it.verb} {it.path}")
def test_on_loopback_without_tokens_only_pages_of_others_are_refused(
    asked: Asked, local: Served, recorder: Recorder
) -> None:
    for token, (host, ours), (origin, same) in itertools.product((None, WRONG), HOSTS.items(), ORIGINS.items()):
        before = len(recorder.calls)
        status = expected(asked, Role.ADMIN, ours, same)
        check(asked, sent(local, asked, token, host, origin), status)
        assert len(recorder.calls) - before == (status == 404)


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "get", "PROPFIND", "X" * 300]


@pytest.mark.parametrize("path", sorted({it.path.partition("?")[0] for it in WALKED}))
def test_other_methods_are_refused(path: str, guarded: Served, recorder: Recorder) -> None:
    takes = {it.verb for it in WALKED if it.path.partition("?")[0] == path}
    before = len(recorder.calls)
    also = {"DELETE"} if path.endswith("/reset") else set()  # a consumer may have this name
    for method in set(METHODS) - takes - also:
        reply = guarded(method, path, token=ADMIN)
        check(Asked(method, path, None, None, ""), reply, 405)
        assert set(reply.headers["allow"].replace(" ", "").split(",")) == takes
    assert len(recorder.calls) == before


ODD = [
    *("/v1", "/v1/", "//v1/topics", "/v1//topics", "/v1/topics/", "/v1/topics/users/", "/V1/topics", "/v1/topics;x"),
    *("/v1/./topics", "/v1/x/../topics", "/%2e%2e/v1/topics", "/v1%2Ftopics%2F", "/v1/topics%00", "/v1/topics%0a"),
    *("http://evil.example/v1/topics", "*", "/%ff", "/healthz/", "/v1/topics/users/partitions/0/compactions/"),
    *("/v1/topics/a%0d%0aSet-Cookie:%20x/nothing", "/" + "x" * 20_000, "/v1/topics/users/partitions/0/0"),
]


@pytest.mark.parametrize("path", ODD, ids=lambda path: path[:60])
def test_nothing_is_at_odd_paths(path: str, guarded: Served, recorder: Recorder) -> None:
    """No redirect, no second way to a route."""
    before = len(recorder.calls)
    for verb in ("GET", "POST", "DELETE"):
        for host, status in (("own", 404), ("evil.example", 421), ("[::1", 421), ("evil/x?", 421), ("a@b\xff", 421)):
            asked = Asked(verb, path, None, Role.READ, "")
            check(asked, sent(guarded, asked, ADMIN, host, ""), status)
    assert len(recorder.calls) == before


def test_an_encoded_slash_takes_what_its_route_takes(guarded: Served, recorder: Recorder) -> None:
    before = len(recorder.calls)
    assert guarded("DELETE", "/v1/topics/users%2Fconsumers%2Fc", token=OPERATE).status == 403
    assert guarded("POST", "/v1/topics/users/partitions/0%2Fdelete-records", "{}", token=OPERATE).status == 403
    assert len(recorder.calls) == before


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        *((f"Bearer {READ}", 200), (f"bearer {READ}", 200), (f"BEARER   {READ}  ", 200)),
        *((READ, 401), (f"Basic {READ}", 401), ("Bearer", 401), ("Bearer ", 401), (f"Bearer {READ}x", 401)),
        *((f"Bearer {READ} {READ}", 401), (f"Bearer {READ},{READ}", 401), (f"Bearer {READ.upper()}", 401)),
        *((f"Bearer {READ[:-1]}%72", 401), (f"Bearer {READ}\xff", 401), (f"Bearer {READ}\x00", None)),
        (f"Bearer {'x' * 20_000}", 401),
    ],
)
def test_a_token_has_one_spelling(authorization: str, status: int | None, guarded: Served) -> None:
    reply = guarded("GET", "/openapi.json", headers={"Authorization": authorization.encode("latin-1")})
    assert reply.status == (status or 400)


def test_tokens_come_in_the_header_alone(guarded: Served) -> None:
    for path in (f"/openapi.json?token={READ}", f"/openapi.json?access_token={READ}"):
        assert guarded("GET", path, headers={"Cookie": f"token={READ}", "X-Token": READ}).status == 401
    both = {"authorization": f"Bearer {WRONG}", "Authorization": f"Bearer {READ}"}
    assert guarded("GET", "/openapi.json", headers=both).status == 401


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_what_a_page_of_another_origin_fetches_is_refused(site: str, status: int, local: Served) -> None:
    """A picture or a script of another page sends no Origin, but browsers say whence it comes."""
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for path in ("/openapi.json", "/metrics", "/v1/events"):
        assert local("GET", path, headers=fetched).status == status
    assert local("GET", "/", headers=fetched).status == 200, "a link may lead to the dashboard"
    assert local("GET", "/nowhere", headers=fetched).status == (404 if status == 200 else 403)


FORWARDED = [
    "X-Forwarded-Host",
    "X-Forwarded-For",
    "X-Real-IP",
    "Forwarded",
    "X-Original-URL",
    "X-HTTP-Method-Override",
]


def test_what_a_proxy_would_say_changes_nothing(guarded: Served, recorder: Recorder, pauses: list[int]) -> None:
    """Neither whose host it is, nor who guesses."""
    told = dict.fromkeys(FORWARDED, "127.0.0.1")
    assert guarded("GET", "/v1/topics", headers={**told, "Host": "evil.example"}, token=READ).status == 421
    guarded("GET", "/v1/topics", token=READ)  # a right token ends the count
    pauses.clear()
    for number in range(6):
        guarded("GET", "/v1/topics", headers=dict.fromkeys(FORWARDED, f"10.0.0.{number}"), token=WRONG)
    assert pauses == [0, 0, 0, 0, 1_000, 2_000]
    before = len(recorder.calls)
    assert guarded("GET", "/v1/topics", headers={"X-HTTP-Method-Override": "DELETE"}, token=READ).status == 404
    assert [name for name, _ in recorder.calls[before:]] == ["topics"]


@pytest.mark.parametrize("host", ["[::1]", "[::1]:1", "localhost.", "127.1.2.3:99", "LocalHost:8480"])
def test_names_of_loopback_are_ours(host: str, local: Served) -> None:
    own: dict[str, str | bytes] = {"Host": host}
    assert local("GET", "/openapi.json", headers=own).status == 200
    assert local("GET", "/openapi.json", headers={**own, "Origin": f"http://{host}"}).status == 200
    assert local("GET", "/openapi.json", headers={**own, "Origin": "http://localhost:1"}).status == 403
