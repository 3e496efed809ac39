"""The demo's own S3: the testing server in a child process, which counts the requests of all its clients.

The child answers each line on its stdin with its counts so far, and ends when stdin ends: a demo that is killed leaves
no server behind.
"""

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from typing import Any

import msgspec

from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.request_counts import RequestCounts

__all__ = ["OwnS3"]


class _Greeting(msgspec.Struct, frozen=True):
    bucket: str
    env: dict[str, str]
    options: dict[str, Any]


class OwnS3:
    """A context manager. `env` is what other processes need to reach the server; `options` are storage options."""

    def __init__(self) -> None:
        """Raises InvalidRequest if moto is not installed."""
        if find_spec("moto") is None or find_spec("werkzeug") is None:
            raise InvalidRequest(
                "the demo's own S3 needs moto: pip install 'lithify[testing]', or let the demo use a folder: "
                "lithify demo --warehouse FOLDER"
            )
        command = [sys.executable, "-m", "lithify.cli.demo.s3"]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        greeting = msgspec.json.decode(self._line(), type=_Greeting)
        self.url = f"s3://{greeting.bucket}"
        self.env = greeting.env
        self.options = greeting.options

    def __enter__(self) -> "OwnS3":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()

    def counts(self) -> RequestCounts:
        """Requests of all processes since the start; bytes are not counted."""
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return msgspec.json.decode(self._line(), type=RequestCounts)

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise Unavailable("the demo's S3 server has stopped; its output above shows why")
        return line


def kind_of(method: str, query: str) -> str:
    """The field of RequestCounts for a request to the S3 API."""
    match method:
        case "GET":
            return "lists" if "list-type=" in query else "gets"
        case "HEAD":
            return "heads"
        case "PUT":
            return "output_requests" if "uploadId=" in query else "puts"
        case "POST":
            return "deletes" if query.startswith("delete") else "output_requests"
        case _:
            return "deletes"


def main() -> None:
    """The child process."""
    from lithify.testing.server import S3Server

    counted: Counter[str] = Counter()

    def tell(answer: Any) -> None:
        print(msgspec.json.encode(answer).decode(), flush=True)

    with S3Server(observe=lambda method, query: counted.update([kind_of(method, query)])) as server:
        tell(_Greeting(server.create_bucket(), server.env, server.options))
        counted.clear()
        for _ in sys.stdin:
            tell(RequestCounts(**counted))


if __name__ == "__main__":
    main()
