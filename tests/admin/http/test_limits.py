"""Bodies, times, threads and bugs: how much a request may take, and what it is told."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from structlog.testing import capture_logs

import lithify
from lithify.admin.http import connections
from lithify.admin.http.app import Limits
from lithify.admin.http.gate import HEADERS
from lithify.admin.http.routes import ROUTES
from lithify.admin.http.server import Address
from lithify.admin.partitions import Answers
from tests.admin.served import TIMEOUT_S, Recorder, Reply, Served

pytestmark = pytest.mark.slow  # each test starts a server

SMALL = Limits(body_bytes=1_000, request_s=0.2, reads=2, changes=2)
LARGE = Limits(body_bytes=1_000)


@pytest.fixture
def server(recorder: Recorder, serve: Callable[..., Served]) -> Served:
    return serve(recorder, limits=LARGE)


BODIES: dict[str, tuple[bytes, int]] = {
    "as large as may be": (b'{"name": "a"}'.ljust(1_000), 404),
    "too large": (b'{"name": "a"}'.ljust(1_001), 413),
    "much too large": (b" " * 3_000_000, 413),
    "empty": (b"", 400),
    "cut": (b'{"name": "a', 400),
    "two": (b'{"name": "a"}{"name": "b"}', 400),
    "a list": (b"[]", 400),
    "null": (b"null", 400),
    "unknown field": (b'{"name": "a", "partition": 1}', 400),
    "wrong type": (b'{"name": 1}', 400),
    "missing": (b'{"partitions": 1}', 400),
    "a fraction": (b'{"name": "a", "partitions": 1.5}', 400),
    "a text": (b'{"name": "a", "partitions": "1"}', 400),
    "true": (b'{"name": "a", "partitions": true}', 400),
    "NaN": (b'{"name": "a", "partitions": NaN}', 400),
    "Infinity": (b'{"name": "a", "config": {"x": Infinity}}', 400),
    "1e999": (b'{"name": "a", "config": {"x": 1e999}}', 400),
    "nested": (b'{"name": ' + b"[" * 900, 400),
    "nested in a setting": (b'{"name": "a", "config": {"x": ' + b"[" * 900, 400),
    "nested unknown": (b'{"x": ' + b"[" * 900, 400),
    "no UTF-8": (b'{"name": "\xff"}', 400),
    "half a pair": (b'{"name": "\\ud800"}', 400),
    "UTF-16": ('{"name": "a"}'.encode("utf-16"), 400),
    "a mark before it": (b'\xef\xbb\xbf{"name": "a"}', 400),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str, server: Served, recorder: Recorder) -> None:
    body, status = BODIES[name]
    reply = server("POST", "/v1/topics", body)
    assert reply.status == status
    assert reply.is_problem
    assert len(recorder.calls) == (status == 404)
    assert reply.json["kind"] == ("NotFound" if status == 404 else "InvalidRequest")


def test_a_chunked_body_has_the_same_limit(server: Served, recorder: Recorder) -> None:
    chunk = b"100\r\n" + b" " * 256 + b"\r\n"
    headers = {"Transfer-Encoding": "chunked"}
    assert server("POST", "/v1/topics", chunk * 4 + b"0\r\n\r\n", headers).status == 413
    assert server("POST", "/v1/topics", b'd\r\n{"name": "a"}\r\n0\r\n\r\n', headers).status == 404
    assert server("GET", "/v1/topics", b" " * 1_001).status == 413


@pytest.mark.parametrize(
    ("type_", "status"),
    [
        *(("application/json; charset=utf-8", 404), ("APPLICATION/JSON", 404), ("", 415), ("text/plain", 415)),
        *(
            ("application/x-www-form-urlencoded", 415),
            ("multipart/form-data", 415),
            ("application/json,text/plain", 415),
        ),
        ("text/plain;application/json", 415),
    ],
)
def test_a_form_of_another_site_can_send_no_json(type_: str, status: int, server: Served) -> None:
    assert server("POST", "/v1/topics", '{"name": "a"}', {"Content-Type": type_}).status == status


def test_what_takes_no_body_takes_an_empty_one(server: Served) -> None:
    assert [server("POST", "/v1/topics/users/pause", body).status for body in (None, "", "{}")] == [404] * 3
    assert [server("POST", "/v1/topics/users/pause", body).status for body in ("[]", '{"x": 1}')] == [400] * 2


QUERIES = {
    "/v1/topics?limit=0": "limit",
    "/v1/topics?limit=1001": "limit",
    "/v1/topics?limit=-1": "limit",
    "/v1/topics?limit=" + "9" * 5_000: "limit",
    "/v1/topics?limit=1e2": "limit",
    "/v1/topics?limit=01": "limit",
    "/v1/topics?limit=": "limit",
    "/v1/topics/users/key?key_base64=YQ==&values=": "values",
    "/v1/topics/users/checkpoints?owner=": None,
    "/v1/topics?limit=-0": "limit",
    "/v1/topics?limit=NaN": "limit",
    "/v1/topics?limit=%D9%A1": "limit",
    "/v1/topics?limit=1&limit=2": "more than once",
    "/v1/topics?cursor=a&cursor=a": "more than once",
    "/v1/topics?cursor=%00": "cursor",
    "/v1/topics?cursor=%ff": "cursor",
    "/v1/topics?cursor=bm8": "cursor",
    "/v1/topics?cursor=" + "A" * 9_000: "cursor",
    "/v1/topics?Limit=1": "there is no 'Limit'",
    "/v1/topics?nothing": None,
    "/v1/topics?nothing=1": "there is no 'nothing'",
    "/v1/topics/users?partition=1": "takes none",
    "/v1/topics/users/key": "key_base64 is missing",
    "/v1/topics/users/key?key_base64=a": "key_base64",
    "/v1/topics/users/key?key_base64=YQ==&values=maybe": "values",
    "/v1/topics/users/key?key_base64=YQ==&values=1": "values",
    "/v1/topics/users/key?key_base64=YQ==&limit=1.5": "limit",
    "/v1/topics/users/partitions/x": "partition",
    "/v1/topics/users/partitions/1.0": "partition",
    "/v1/topics/users/partitions/null/explain": "partition",
    "/v1/topics/users/partitions/null/checkpoints": "partition",
    "/v1/topics/users/partitions/None/checkpoints": "partition",
    "/v1/compactions?partition=null": "partition",
    "/v1/topics/users/partitions/%2B1x": "partition",
    "/v1/topics/users/partitions/" + "9" * 5_000: "partition",
    "/v1/compactions?status=all": "status",
    "/v1/compactions?partition=one": "partition",
    "/v1/topics/users/checkpoints?owner=me": "owner",
    "/v1/topics/users/checkpoints?owner=null": "owner",
}


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path[:50])
def test_queries(path: str, serve: Callable[..., Served], server: Served) -> None:
    class Empty(Recorder):
        def topics(self) -> Any:
            return Answers(items=())

    reply = serve(Empty())("GET", path) if path.startswith("/v1/topics?") else server("GET", path)
    if QUERIES[path] is not None:
        assert reply.status == 400
        assert QUERIES[path] in reply.json["detail"]
    else:
        assert reply.status in (200, 400, 404)


def test_one_partition_in_a_path_is_never_all_of_them(server: Served, recorder: Recorder) -> None:
    """`null` was taken for all: a checkpoint was deleted in each."""
    for spelling in ("null", "None", "-0", "0.0", "0e0", "%200", "0%20"):
        reply = server("DELETE", f"/v1/topics/users/partitions/{spelling}/checkpoints/mine")
        assert (reply.status, reply.json["kind"]) == (400, "InvalidRequest")
    assert recorder.calls == []


class Blocked:
    """An `Admin` whose store hangs until `go`."""

    def __init__(self) -> None:
        self.go, self.began = threading.Event(), threading.Semaphore(0)
        self.running = self.most = self.begun = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**_: Any) -> Any:
            with self._lock:
                self.running, self.begun = self.running + 1, self.begun + 1
                self.most = max(self.most, self.running)
            self.began.release()
            try:
                assert self.go.wait(TIMEOUT_S)
            finally:
                with self._lock:
                    self.running -= 1
            raise lithify.NotFound("nothing is here")

        return call


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    found = Blocked()
    yield found
    found.go.set()


def test_what_takes_too_long_is_told_so(blocked: Blocked, serve: Callable[..., Served]) -> None:
    server = serve(blocked, limits=SMALL._replace(reads=8, changes=8))
    reads = server("GET", "/v1/topics")
    keyed = server("POST", "/v1/topics/users/partitions/0/compactions", "{}", {"Idempotency-Key": "k"})
    change = server("POST", "/v1/topics", '{"name": "a"}')
    told = [(it.status, it.json["kind"], it.json["retryable"], "retry-after" in it.headers) for it in (reads, keyed)]
    assert told == [(503, "Unavailable", True, True)] * 2
    assert (change.status, change.json["kind"], change.json["retryable"]) == (504, "CommitUnknown", False)
    assert all(it.is_problem for it in (reads, keyed, change))


def test_a_store_that_hangs_takes_no_more_threads_than_there_may_be(
    blocked: Blocked, serve: Callable[..., Served]
) -> None:
    server = serve(blocked, limits=SMALL)
    with ThreadPoolExecutor(8) as clients:
        replies = list(clients.map(lambda _: server("POST", "/v1/topics", '{"name": "a"}'), range(8)))
    assert (blocked.begun, blocked.most) == (2, 2), "what was given up before it began never begins"
    assert sorted(it.status for it in replies) == [503] * 6 + [504] * 2
    assert {it.json["detail"] for it in replies if it.status == 503} == {
        "too many requests run; this one did not begin within 0.2 s"
    }
    assert server("GET", "/healthz").status == 200, "the process is alive"
    assert server("GET", "/openapi.json").status == 200
    assert server("GET", "/readyz").status == 200, "it is about the store, which has a thread of its own for this"
    blocked.go.set()
    while (told := server("POST", "/v1/topics", '{"name": "a"}').status) == 503:
        pass  # what was given up still ends
    assert told == 404


def test_who_may_only_read_keeps_no_change_from_its_turn(blocked: Blocked, serve: Callable[..., Served]) -> None:
    """One role could take every thread: nobody could cancel, or pause, as long as it asked."""
    server = serve(blocked, limits=SMALL._replace(request_s=TIMEOUT_S))
    with ThreadPoolExecutor(5) as clients:
        reads = [clients.submit(server, "GET", "/v1/topics") for _ in range(4)]
        assert [blocked.began.acquire(timeout=TIMEOUT_S) for _ in range(2)] == [True] * 2
        change = clients.submit(server, "POST", "/v1/topics/users/pause")
        try:
            assert blocked.began.acquire(timeout=5), "the change waits for the reads"
            assert blocked.begun == 3
        finally:
            blocked.go.set()
        assert [it.result().status for it in (*reads, change)] == [404] * 5


def raw(server: Served, sent: bytes, *, ends: bool = False) -> bytes:
    """All that it answers until it closes the connection."""
    host, _, port = server.authority.partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65_536):
            found += part
    return found


def test_a_body_that_does_not_arrive_ends_its_request(recorder: Recorder, serve: Callable[..., Served]) -> None:
    server = serve(recorder, limits=SMALL)
    head = f"POST /v1/topics HTTP/1.1\r\nHost: {server.authority}\r\nConnection: close\r\nContent-Length: 9\r\n"
    answer = raw(server, f"{head}Content-Type: application/json\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive within" in answer
    assert recorder.calls == []


def test_a_client_that_hangs_up_changes_nothing(recorder: Recorder, serve: Callable[..., Served]) -> None:
    server = serve(recorder)
    head = f"POST /v1/topics HTTP/1.1\r\nHost: {server.authority}\r\nContent-Length: 99\r\n\r\n"
    with capture_logs() as logs:
        raw(server, f'{head}{{"name": "a"}}'.encode(), ends=True)
        assert server("GET", "/healthz").status == 200
    assert recorder.calls == []
    assert not [entry for entry in logs if entry["event"] == "unexpected"]


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_head_that_does_not_arrive_ends_its_connection(
    sent: bytes, recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a few hundred of them would take every connection there may be."""
    monkeypatch.setattr(connections, "IDLE_S", 0.1)
    assert raw(serve(recorder), sent) == b""


def test_an_answer_is_sent_at_once() -> None:
    """It was held back for 40 ms: by Nagle's rule, until the client had acknowledged its head."""
    address = Address("127.0.0.1:0")
    with address.socket:
        assert address.socket.proto == socket.IPPROTO_TCP


MALFORMED = [
    b"GET /nowhere HTTP/1.1\r\n\r\n",  # no Host
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\x0bY: b\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"nonsense\r\n\r\n",
]


@pytest.mark.parametrize("sent", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_http_is_refused_and_its_connection_closed(sent: bytes, server: Served, recorder: Recorder) -> None:
    answer = raw(server, sent, ends=True)
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 404", b"")
    assert answer.count(b"HTTP/1.1 ") <= 1, "nothing behind it is taken for a request"
    if answer:
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode().lower().splitlines()
        headers = dict(line.partition(": ")[::2] for line in lines[1:])
        assert Reply(int(lines[0].split()[1]), headers, body).is_problem
        assert HEADERS["Content-Security-Policy"].lower() == headers["content-security-policy"]
    assert recorder.calls == []
    assert server("GET", "/healthz").status == 200


def test_a_body_that_is_no_http_ends_its_request_and_is_no_fault_of_ours(
    server: Served, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /v1/topics HTTP/1.1\r\nHost: {server.authority}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert raw(server, head + b"zz\r\n").startswith(b"HTTP/1.1 400")
    assert server("GET", "/healthz").status == 200
    assert recorder.calls == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_body_with_two_lengths_hides_no_second_request(server: Served, recorder: Recorder) -> None:
    hidden = b"DELETE /v1/topics/users HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    both = head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
    raw(server, both, ends=True)
    raw(server, head + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden, ends=True)
    assert recorder.calls == []


@pytest.mark.parametrize("route", ROUTES, ids=lambda it: f"{it.verb} {it.path}")
def test_a_bug_tells_its_place_and_nothing_of_its_message(route: Any, serve: Callable[..., Served]) -> None:
    class Buggy:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def call(**_: Any) -> Any:
                raise KeyError("a secret record")

            return call

    if route.verb not in ("GET", "DELETE") or route.call == "history":
        return  # the others differ in nothing but their bodies
    path = route.path.format(topic="users", partition=0, job="j", name="n", application="a")
    server = serve(Buggy())
    with capture_logs() as logs:
        reply = server(route.verb, path)
    assert (reply.status, reply.is_problem, reply.json["kind"]) == (500, True, "Unexpected")
    assert "KeyError at tests." in reply.json["detail"]
    assert all(reply.headers[name.lower()] == value for name, value in HEADERS.items())
    (entry,) = [entry for entry in logs if entry["event"] == "unexpected"]
    assert (entry["method"], entry["path"], entry["error"]) == (route.verb, path, reply.json["detail"])
    assert "secret" not in f"{reply} {logs}"
