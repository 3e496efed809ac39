"""The client: what it sends, what it makes of servers that are none, and requests that are repeated."""

import gzip
import http.server
import itertools
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import lithify
from lithify.admin.http import client
from lithify.admin.http.client import RemoteAdmin
from tests.admin.served import ADMIN, READ, TIMEOUT_S, TOKENS, WRONG, Served
from tests.admin.test_operations import COMPACTED


@pytest.fixture
def users(warehouse: lithify.Warehouse) -> lithify.Topic:
    return warehouse.create_topic("users", 2, COMPACTED)


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """A server that answers everything so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


ONE = (
    b'{"items": [{"topic": "users", "topic_id": "1a2b", "version": 1, "created_at_ms": 0, "partitions": 1, '
    b'"config": {}}], "next": "%s"}'
)
OTHERS: list[tuple[int, bytes, dict[str, str], type[lithify.LithifyError], str]] = [
    (200, b"<html>Hello</html>", {"Content_Type": "text/html"}, lithify.Unavailable, "not as a lithify server"),
    (200, b'{"items": []}', {"Content_Type": "text/plain"}, lithify.Unavailable, "not as a lithify server"),
    (200, b'{"no": 1}', {"Content_Type": "application/json"}, lithify.InvalidRequest, "another version"),
    (200, b'{"items": ', {"Content_Type": "application/json"}, lithify.InvalidRequest, "another version"),
    (200, b"\xff", {"Content_Type": "application/json"}, lithify.InvalidRequest, "another version"),
    (502, b"<html>Bad gateway", {}, lithify.Unavailable, "answered 502"),
    (404, b'{"message": "no"}', {}, lithify.Unavailable, "answered 404"),
    (200, b'{"x": ' + b"[" * 200_000, {"Content_Type": "application/json"}, lithify.InvalidRequest, "another version"),
    (400, b'{"x": ' + b"[" * 200_000, {}, lithify.Unavailable, "answered 400"),
    (200, b'{"items": [], "next": "on"}', {"Content_Type": "application/json"}, lithify.Unavailable, "has no end"),
    (
        200,
        b'{"items":[{}],"next":"on"}',
        {"Content_Type": "application/json"},
        lithify.InvalidRequest,
        "another version",
    ),
    (*(200, ONE % b"next", {"Content_Type": "application/json"}, lithify.Unavailable, "has no end"),),
    (
        *(
            200,
            gzip.compress(b'{"items": []}', mtime=0),
            {"Content_Type": "application/json", "Content_Encoding": "gzip"},
        ),
        *(lithify.InvalidRequest, "another version"),
    ),
    (200, b" " * 9_000, {"Content_Type": "application/json"}, lithify.Unavailable, "more than 4096 bytes"),
    (302, b"", {"Location": "http://evil.example/"}, lithify.Unavailable, "answered 302"),
    (
        *(500, b'{"type":"a","title":"b","status":200,"detail":"c","kind":"NotFound","retryable":false}', {}),
        *(lithify.Unavailable, "answered 500"),
    ),
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case[0]} {case[1][:12]!r}")
def test_another_server_is_told_as_such(
    case: tuple[int, bytes, dict[str, str], type[lithify.LithifyError], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, body, headers, kind, says = case
    monkeypatch.setattr(client, "_ANSWER_BYTES_MAX", 1 << 20 if b"[[" in body else 4_096)
    with answering(status, body, **headers) as url, pytest.raises(kind, match=says) as told:
        lithify.Admin(url, token=READ).topics()
    assert READ not in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "http://[::1", "http://h:99999", "http://h:x", "http://h:0", "http://h?x=1", "http://h/#a"),
        *("http://u:p@h", "http://a b", "http://h\r\nX: y", "http://hé"),
    ],
)
def test_urls_of_no_server_are_refused(url: str) -> None:
    with pytest.raises(lithify.InvalidRequest):
        RemoteAdmin(url)


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    admin = lithify.Admin(url)
    for ask in (admin.topics, lambda: admin.delete_topic("users")):
        with pytest.raises(lithify.Unavailable, match="does not answer"):
            ask()


@pytest.mark.parametrize("token", ["a\nb", "a\r\nX: y", "ä" * 32, "\x00"])
def test_a_token_that_cannot_be_sent_is_refused_untold(token: str) -> None:
    with pytest.raises(lithify.InvalidRequest) as told:
        lithify.Admin("http://127.0.0.1:1", token=token)
    assert token not in str(told.value)


def test_tokens_and_roles_through_the_client(
    warehouse: lithify.Warehouse, users: lithify.Topic, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve(lithify.Admin(warehouse), TOKENS).url
    for token, says in ((None, "401 Unauthorized"), (WRONG, "401 Unauthorized"), (READ, "takes the role admin")):
        with pytest.raises(lithify.AccessDenied, match=says) as told:
            lithify.Admin(url, token=token).delete_topic("users")
        assert (told.value.exit_code, told.value.retryable) == (7, False)
    monkeypatch.setenv("LITHIFY_HTTP_TOKEN", ADMIN)
    assert lithify.Admin(url).delete_topic("users").topic == "users"
    assert ADMIN not in repr(lithify.Admin(url)) + repr(vars(lithify.Admin(url)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda far: far.alter_topic("users", {"retention.ms": "\ud800"}),
        lambda far: far.reset_consumer("users", "c", "\ud800"),
        lambda far: far.readable_compactions(statuses=["\ud800"]),
        lambda far: far.checkpoints("users", owner="\ud800"),
        lambda far: far.submit("users", 0, ["\ud800"]),
    ],
)
def test_what_is_no_text_is_refused_before_it_is_sent(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(lithify.InvalidRequest, match="half a surrogate pair"):
        ask(lithify.Admin("http://127.0.0.1:1"))


def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte came in time, and all of them never."""
    now_ms = itertools.count(0, client.ANSWER_MS // 10)
    monkeypatch.setattr(client, "monotonic_ms", lambda: next(now_ms))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sent: list[int] = []

        def run() -> None:
            for _ in range(client.ATTEMPTS):
                taken, _ = listening.accept()
                with taken:
                    taken.recv(65_536)
                    taken.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
                    )
                    sent.append(_trickled(taken))

        thread = threading.Thread(target=run)
        thread.start()
        with pytest.raises(lithify.Unavailable, match="does not answer"):
            lithify.Admin(f"http://127.0.0.1:{listening.getsockname()[1]}").topics()
        thread.join(TIMEOUT_S)
    assert len(sent) == client.ATTEMPTS


def _trickled(taken: socket.socket) -> int:
    """How many bytes, until the client is gone."""
    for number in itertools.count():
        try:
            taken.sendall(b" ")
        except OSError:
            return number
    raise AssertionError


def test_a_submission_with_its_key_is_one_job(
    warehouse: lithify.Warehouse, users: lithify.Topic, serve: Callable[..., Served]
) -> None:
    """At once, through several servers, and through one that was started since."""
    servers = [serve(lithify.Admin(warehouse)) for _ in range(2)]
    admins = itertools.cycle([lithify.Admin(server.url) for server in servers])
    asked = [(next(admins), number) for number in range(16)]
    with ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda it: it[0].submit("users", 0, idempotency_key="k"), asked))
    found.append(lithify.Admin(serve(lithify.Admin(warehouse)).url).submit("users", 0, idempotency_key="k"))
    found.append(lithify.Admin(warehouse).submit("users", 0, idempotency_key="k"))
    assert len({job.id for job in found}) == 1
    assert len(lithify.Admin(warehouse).compactions("users")) == 1
    assert next(admins).submit("users", 0, idempotency_key="l").id != found[0].id
    reply = servers[0]("POST", "/v1/topics/users/partitions/0/compactions", "{}", {"Idempotency-Key": "k"})
    assert (reply.status, reply.headers["location"]) == (202, f"/v1/compactions/{found[0].id}")


@contextmanager
def cutting(server: Served, lost: int) -> Iterator[tuple[str, list[bytes]]]:
    """Passes requests on, and closes the first `lost` connections once their request has been answered."""
    host, _, port = server.authority.partition(":")
    taken: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                client, _ = listening.accept()
                with client, socket.create_connection((host, int(port)), TIMEOUT_S) as behind:
                    head = client.recv(65_536)
                    if not head:
                        return
                    while b"\r\n\r\n" not in head or head.endswith(b"\r\n\r\n"):
                        if head.startswith(b"GET"):
                            break
                        head += client.recv(65_536)
                    behind.sendall(head)
                    reply = _whole(behind)
                    taken.append(head)
                    if len(taken) > lost:
                        client.sendall(reply)

        thread = threading.Thread(target=run)
        thread.start()
        address = listening.getsockname()
        try:
            yield f"http://127.0.0.1:{address[1]}", taken
        finally:
            socket.create_connection(address, TIMEOUT_S).close()
            thread.join(TIMEOUT_S)


def _whole(behind: socket.socket) -> bytes:
    """One reply. Its head and its body may come one after the other."""
    reply = b""
    while True:
        head, end, body = reply.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if end and length is not None and len(body) >= int(length[1]):
            return reply
        more = behind.recv(1 << 20)
        assert more, "the server closed before its reply was whole"
        reply += more


@pytest.mark.parametrize("lost", [1, 2])
def test_a_reply_that_is_lost_is_asked_for_again_and_does_its_work_once(
    lost: int, warehouse: lithify.Warehouse, users: lithify.Topic, serve: Callable[..., Served]
) -> None:
    with cutting(serve(lithify.Admin(warehouse)), lost) as (url, taken):
        made = lithify.Admin(url).submit("users", 0)
    assert len(taken) == lost + 1
    assert [job.id for job in lithify.Admin(warehouse).compactions()] == [made.id]


def test_another_change_whose_reply_is_lost_is_not_repeated(
    warehouse: lithify.Warehouse, users: lithify.Topic, serve: Callable[..., Served]
) -> None:
    unknown = pytest.raises(lithify.CommitUnknown, match="not known whether this was done")
    with cutting(serve(lithify.Admin(warehouse)), 1) as (url, taken), unknown:
        lithify.Admin(url).create_checkpoint("users", "c")
    assert len(taken) == 1
    assert len(lithify.Admin(warehouse).checkpoints("users").items) == 2
