"""`lithify compactor run --http` as a process, and what is asked of it over plain HTTP."""

import contextlib
import http.client
import json
import signal
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from lithify.store.driver import pause
from tests.cli.test_process import SERVICE, TIMEOUT_S, Process

__all__ = ["Daemon", "Events", "asked", "followed"]

LOOK_MS = 50
LOOKS_MAX = 2_400


class Daemon(Process):
    """Serves HTTP on a port of its own. Its log goes to nobody until it has ended."""

    def __init__(self, url: str, *words: str, address: str = "127.0.0.1:0", **env: str) -> None:
        super().__init__(url, *SERVICE, "--no-gc", "--interval-ms", "300", "--http", address, *words, **env)
        assert self.of.stdout is not None
        self.url = self.of.stdout.readline().strip()
        assert self.url, self.of.communicate(timeout=TIMEOUT_S)[1]

    @property
    def address(self) -> str:
        return self.url.partition("://")[2]

    def stop(self) -> int:
        self.of.send_signal(signal.SIGTERM)
        return self.end()


def asked(verb: str, url: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=verb)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
        return json.load(reply)


def followed(status: Callable[[], tuple[str, float]]) -> tuple[str, list[float]]:
    """How a compaction ends, and every percentage that was seen until then."""
    seen: list[float] = []
    for _ in range(LOOKS_MAX):
        state, percentage = status()
        seen.append(percentage)
        if state in ("completed", "failed", "cancelled"):
            return state, seen
        pause(LOOK_MS)
    raise AssertionError(f"it does not end: {state} at {seen[-1]} %")


class Events:
    """A client of /v1/events, as a browser's EventSource is one: it remembers the last id, and comes back with it."""

    def __init__(self) -> None:
        self.cursor = ""
        self.streams: list[list[str]] = []  # of each connection: the ids of the changes, as they came
        self._open: http.client.HTTPConnection | None = None
        self._reply: http.client.HTTPResponse | None = None

    def connect(self, address: str) -> None:
        self.cut()
        self.streams.append([])
        self._open = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        headers = {"Last-Event-ID": self.cursor} if self.cursor else {}
        self._open.request("GET", "/v1/events", headers=headers)
        self._reply = self._open.getresponse()
        assert self._reply.status == 200, self._reply.read()
        if not self.cursor:
            next(self._blocks())

    def cut(self) -> None:
        if self._reply is not None:
            self._reply.close()
        if self._open is not None:
            self._open.close()

    def until(self, done: Callable[[dict[str, Any]], bool]) -> None:
        """Take events until one of them is it, or the server ends the stream."""
        for told in self._blocks():
            if "data" in told:
                event = json.loads(told["data"])
                self.streams[-1] += [event["id"]] if "id" in event else []
                if done(event):
                    return

    def _blocks(self) -> Iterator[dict[str, str]]:
        assert self._reply is not None
        told: dict[str, str] = {}
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            while line := self._reply.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    told[name] = value
                    continue
                self.cursor = told["id"]
                yield told
                told = {}
