"""GET /v1/events over a real socket: nothing is missed over a cut, slots are given back, and a server that leaves ends
its streams."""

import http.client
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lithify
from lithify.admin.http.app import Limits
from lithify.admin.http.server import Serving, serving
from lithify.admin.http.streams import STREAMS_MAX, Stream, Streams
from lithify.events.feed import Feed, Following
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from tests.admin.served import ADMIN, READ, Recorder, Served, running

WAIT_S = 60
pytestmark = pytest.mark.slow  # a server looks every two seconds


@pytest.fixture
def warehouse() -> Iterator[lithify.Warehouse]:
    """By the real clock, since a server looks every two seconds of it."""
    with lithify.open(f"memory://{new_id()}") as opened:
        yield opened


@pytest.fixture
def users(warehouse: lithify.Warehouse) -> lithify.Topic:
    return warehouse.create_topic("users", 2)


@contextmanager
def served(warehouse: lithify.Warehouse) -> Generator[Serving]:
    server = serving(warehouse, "127.0.0.1:0")
    with running(server):
        yield server


class Client:
    """Reads a stream event by event."""

    def __init__(self, server: Serving, cursor: str = "", path: str = "/v1/events", token: str = "") -> None:
        self._connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=WAIT_S)
        headers = {"Last-Event-ID": cursor} if cursor else {}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request("GET", path, headers=headers)
        self.reply = self._connection.getresponse()
        self.cursor = cursor

    def events(self) -> Iterator[dict[str, Any]]:
        """Until the server ends the stream. The cursor is that of the last event that was given."""
        told: dict[str, str] = {}
        while line := self.reply.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                told[name] = value
                continue
            self.cursor = told["id"]
            if "data" in told:
                event = msgspec.json.decode(told["data"])
                assert event["event"] == told["event"]
                yield event
            told = {}

    def begin(self) -> None:
        """Take the first cursor, so that whatever happens from now on is told."""
        assert self.reply.status == 200
        assert self.reply.readline().startswith(b"id: ")
        assert self.reply.readline() == b"\n"

    def close(self) -> None:
        self.reply.close()
        self._connection.close()


def append(topic: lithify.Topic, value: bytes) -> None:
    topic.partition(0).append([lithify.Record(b"k", value)])


def offsets(events: Iterator[dict[str, Any]], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        event = next(events)
        found += [event.get("offset", 0)] if event["event"] == "appended" else []
    return found


def test_a_stream_that_was_cut_goes_on_where_it_stopped(warehouse: lithify.Warehouse, users: lithify.Topic) -> None:
    with served(warehouse) as server:
        with closing(Client(server)) as client:
            client.begin()
            append(users, b"0")
            append(users, b"1")
            assert offsets(client.events(), 1) == [0]
        append(users, b"2")
        with closing(Client(server, client.cursor)) as again:
            assert offsets(again.events(), 2) == [1, 2]


def test_another_server_goes_on_for_it(warehouse: lithify.Warehouse, users: lithify.Topic) -> None:
    with served(warehouse) as server, closing(Client(server)) as client:
        client.begin()
        append(users, b"0")
        assert offsets(client.events(), 1) == [0]
    append(users, b"1")
    with served(warehouse) as other, closing(Client(other, client.cursor)) as again:
        events = again.events()
        told = [next(events)]
        while told[-1].get("offset") != 1:
            told.append(next(events))
        ids = [event["id"] for event in told]
        assert len(ids) == len(set(ids)), "some were sent before; within a stream each is told once"


def test_one_topic_or_partition_is_followed(warehouse: lithify.Warehouse, users: lithify.Topic) -> None:
    warehouse.create_topic("others").append([lithify.Record(b"k", b"v")])
    with served(warehouse) as server, closing(Client(server, path="/v1/events?topic=users&partition=0")) as client:
        client.begin()
        users.partition(1).append([lithify.Record(b"k", b"v")])
        append(users, b"0")
        assert {(event["topic"], event["partition"]) for event in [next(client.events())]} == {("users", 0)}


@pytest.mark.parametrize(
    ("path", "cursor", "status"),
    [
        ("/v1/events?topic=nobody", "", 404),
        ("/v1/events?partition=0", "", 400),
        ("/v1/events?topic=users&partition=x", "", 400),
        ("/v1/events?since=0", "", 400),
        ("/v1/events", "yesterday", 400),
    ],
)
def test_what_cannot_be_followed_is_refused(
    warehouse: lithify.Warehouse, users: lithify.Topic, path: str, cursor: str, status: int
) -> None:
    with served(warehouse) as server, closing(Client(server, cursor, path)) as client:
        assert client.reply.status == status
        assert msgspec.json.decode(client.reply.read())["status"] == status


def test_streams_are_bounded_and_a_client_that_goes_makes_room(
    warehouse: lithify.Warehouse, users: lithify.Topic
) -> None:
    with served(warehouse) as server:
        clients = [Client(server) for _ in range(STREAMS_MAX)]
        for client in clients:
            client.begin()
        with closing(Client(server)) as refused:
            assert (refused.reply.status, refused.reply.headers["Retry-After"]) == (503, "1")
        clients.pop().close()
        while True:  # the server learns of it when it next looks
            with closing(Client(server)) as later:
                if later.reply.status == 200:
                    break
        for client in clients:
            client.close()


def test_a_server_that_leaves_ends_its_streams(warehouse: lithify.Warehouse, users: lithify.Topic) -> None:
    with served(warehouse) as server:
        client = Client(server)
        client.begin()
    with closing(client):
        assert list(client.events()) == []


def test_a_stream_ends_with_the_token_that_began_it(
    warehouse: lithify.Warehouse, users: lithify.Topic, tmp_path: Path
) -> None:
    """It went on for as long as its client did, whoever had taken the token away."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read:{READ}\nadmin:{ADMIN}\n")
    server = serving(warehouse, "127.0.0.1:0", tokens)
    with running(server):
        clients = [Client(server, token=token) for token in (READ, ADMIN)]
        for client in clients:
            client.begin()
        tokens.write_text(f"admin:{ADMIN}\n")
        assert list(clients[0].events()) == []
        append(users, b"0")
        assert offsets(clients[1].events(), 1) == [0]
        for client in clients:
            client.close()


class SlowFeed(Feed):
    """Whoever begins waits for `go`."""

    go = threading.Event()

    def follow(self, *words: Any, **named: Any) -> Following:
        self.go.wait(WAIT_S)
        return super().follow(*words, **named)


def test_a_stream_that_begins_after_its_request_was_given_up_keeps_no_place(serve: Any, recorder: Recorder) -> None:
    streams = Streams(SlowFeed(Driver(MemoryStore())), streams_max=1)
    server = serve(recorder, limits=Limits(request_s=0.2), streams=streams)
    assert server("GET", "/v1/events").status == 503
    SlowFeed.go.set()
    while server("GET", "/v1/events").status != 200:  # the one that was given up ends in its own time
        pass


class Stuck(Streams):
    """Whoever begins waits for `go`, as for the files of a long time that another client reads back."""

    def __init__(self) -> None:
        super().__init__(Feed(Driver(MemoryStore())))
        self.go, self.began = threading.Event(), threading.Semaphore(0)

    def begin(self, *asked: Any) -> Stream:
        self.began.release()
        assert self.go.wait(WAIT_S)
        raise lithify.Unavailable("away")


def test_streams_that_wait_to_begin_keep_nothing_else_from_being_read(
    recorder: Recorder, serve: Callable[..., Served]
) -> None:
    """They took every thread that reads: a client with an old cursor stopped the dashboards of all."""
    streams = Stuck()
    server = serve(recorder, limits=Limits(reads=2, request_s=5), streams=streams)
    with ThreadPoolExecutor(3) as clients:
        began = [clients.submit(server, "GET", "/v1/events") for _ in range(3)]
        try:
            assert [streams.began.acquire(timeout=WAIT_S) for _ in range(2)] == [True] * 2
            assert server("GET", "/v1/topics").status == 404
        finally:
            streams.go.set()
        assert {it.result().status for it in began} == {503}
