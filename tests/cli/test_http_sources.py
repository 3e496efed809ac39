"""Sources that an HTTP server has: what it answers is said as what it means."""

import gzip
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cli.conftest import Lithify, lines

ROWS = b"key,value\n" + b"".join(b"k%d,%d\n" % (n, n) for n in range(5))
TEXT = lines(*({"key": f"k{n}", "value": str(n)} for n in range(5))).encode()


class Handler(BaseHTTPRequestHandler):
    """/404 answers 404; anything else is there, whatever its query is."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = int(path[1:]) if path[1:].isdigit() else 200
        text = ROWS if ".csv" in path else TEXT
        body = b"" if status != 200 else gzip.compress(text) if path.endswith(".gz") else text
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", self.path)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users")
    return lithify


@pytest.mark.parametrize("source_id", [(), ("--source-id", "mine")])
@pytest.mark.parametrize(
    ("status", "code", "saying"),
    [
        *((status, 7, "the server refuses access") for status in (401, 403, 407)),
        *((status, 3, "does not exist") for status in (404, 410)),
        *((status, 7, "the server cannot answer now") for status in (408, 429, 500, 502, 503, 504)),
        *((status, 2, "the server refuses the request") for status in (400, 405, 418)),
        (302, 2, "too many redirects"),
    ],
)
def test_what_a_server_answers_is_told(
    users: Lithify, site: str, status: int, code: int, saying: str, source_id: tuple[str, ...]
) -> None:
    told = users.refused("append", "users", "--from", f"{site}/{status}", *source_id, code=code, saying=saying)
    assert status == 302 or f"(HTTP {status})" in told
    assert told.startswith(f"lithify: {site}/{status}")


def test_a_server_that_is_not_there_is_away(users: Lithify) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/in.jsonl"
        users.refused("append", "users", "--from", url, code=7, saying="try again")


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.csv?signature=a.zip"])
def test_a_server_has_csv_too(users: Lithify, site: str, name: str) -> None:
    assert users.json("append", "users", "--from", f"{site}/{name}")["appended"] == 5


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl?signature=a.zip", "in.jsonl.gz", "in.jsonl.gz?signature=1.2"])
def test_a_query_is_no_part_of_the_name(users: Lithify, site: str, name: str) -> None:
    assert users.json("append", "users", "--from", f"{site}/{name}")["appended"] == 5
