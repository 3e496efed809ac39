"""Clients of one server's events: from now on, from a cursor, from another server's cursor. That no change is missing
whatever happens is a property: tests/properties/test_streams.py."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from lithify.events.feed import LINGER_MS, LOOK_MS, MARGIN_MS, Feed, Following
from lithify.events.notices import CollectionEnded, Trouble
from lithify.events.stream import Asked, Cursor, Sent
from lithify.events.types import Amount, Appended, Change, Event, PartitionSealed
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Create, Folders, Get, Request
from tests.clock import HandClock

ENDED = CollectionEnded(swept=False, objects=1, bytes=2, waiting=0, failed=0)


class Scene:
    """A warehouse with one topic of two partitions, its store's clock, and servers."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.store = Metered(MemoryStore(clock=self.clock))
        self.warehouse = Warehouse(Driver(self.store))
        self.topic = self.warehouse.create_topic("t", 2, probe=False)

    def driver(self) -> Driver:
        driver = Driver(self.store)
        driver.monotonic_ms = self.clock
        return driver

    def server(self, **options: Any) -> Feed:
        return Feed(self.driver(), threads=1, **options)

    def append(self, partition: int = 0) -> None:
        self.warehouse.topic("t").partition(partition).append([Record(None, b"v")])

    def wait(self, ms: int) -> None:
        self.clock.now_ms += ms

    @contextmanager
    def requests(self) -> Iterator[list[int]]:
        """How many are made inside."""
        before, made = self.store.requests().total, list[int]()
        yield made
        made.append(self.store.requests().total - before)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def told(sent: tuple[Sent, ...]) -> list[str]:
    return [name(event) for _, event in sent]


def name(event: Event) -> str:
    kind = type(event).__name__
    return f"{kind} {event.partition}:{event.number}" if isinstance(event, Change) else kind


def test_from_now_on(scene: Scene) -> None:
    server = scene.server()
    scene.append()
    scene.wait(5)
    following = server.follow()
    assert following.take() == ()
    scene.append(0)
    scene.append(1)
    assert following.take() == ()  # nobody has looked
    server.look()
    sent = following.take()
    assert told(sent) == ["Appended 0:3", "Appended 1:2"]
    assert [cursor.sequence for cursor, _ in sent] == [1, 2]
    assert following.cursor == Cursor(sent[0].cursor.server, 2, scene.clock.now_ms)


def test_who_asks_for_a_part_gets_that_part(scene: Scene) -> None:
    server = scene.server()
    scene.warehouse.create_topic("u", probe=False)
    part, other = server.follow(Asked("t", 1)), server.follow(Asked("u"))
    with scene.requests() as made:
        server.look()
    assert made == [4]  # one for each chain of t/1 and u/0
    scene.append(0)
    scene.append(1)
    server.look()
    server.sink(ENDED)
    assert (told(part.take()), told(other.take())) == (["Appended 1:2", "CollectionEnded"], ["CollectionEnded"])


@pytest.mark.parametrize("asked", [Asked("nothing"), Asked("t", 2)])
def test_what_does_not_exist_cannot_be_followed(scene: Scene, asked: Asked) -> None:
    with pytest.raises(NotFound, match="does not exist here"):
        scene.server().follow(asked)


def test_an_unchanged_chain_costs_one_request_a_look_and_nothing_while_nobody_follows(scene: Scene) -> None:
    server = scene.server()
    with scene.requests() as made:
        server.look()
    assert made == [0]
    following = server.follow()
    scene.wait(LOOK_MS)
    with scene.requests() as made:
        server.look()
    assert made == [4]  # two partitions, two chains each
    following.close()
    scene.wait(LOOK_MS)
    with scene.requests() as made:
        server.look()  # it may come back at once
    assert made == [4]
    scene.wait(LINGER_MS)
    with scene.requests() as made:
        server.look()
    assert made == [0]


def test_a_client_that_comes_back_soon_gets_exactly_what_it_missed(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    for partition in (0, 1, 0):
        scene.append(partition)
        server.look()
    first, *_ = following.take()
    following.close()
    scene.append(1)
    scene.wait(LINGER_MS // 2)
    server.look()
    again = server.follow(cursor=first.cursor)
    assert told(again.take()) == ["Appended 1:2", "Appended 0:3", "Appended 1:3"]


def test_a_client_that_comes_back_late_gets_what_came_while_nobody_followed(scene: Scene) -> None:
    """The ring has its cursor, and nothing of what came in between."""
    server = scene.server()
    following = server.follow()
    scene.append(0)
    server.look()
    (sent,) = following.take()
    following.close()
    scene.wait(2 * LINGER_MS)
    server.look()
    scene.append(0)
    scene.append(1)
    scene.wait(2 * LINGER_MS)
    server.look()
    again = server.follow(cursor=sent.cursor)
    assert {"Appended 0:3", "Appended 1:2"} <= set(told(again.take()))
    scene.append(1)
    server.look()
    assert told(again.take()) == ["Appended 1:3"]


def test_at_another_server_files_are_read_back(scene: Scene) -> None:
    one, other = scene.server(), scene.server()
    following = one.follow()
    for _ in range(3):
        scene.wait(MARGIN_MS + 1)
        one.look()
        scene.append(0)
        one.look()
    sent = following.take()
    scene.append(1)
    read = other.follow(cursor=sent[1].cursor)
    back = read.take()
    assert told(back) == ["Appended 0:3", "Appended 0:4", "Appended 1:2"]  # the first was older than the margin
    assert {cursor for cursor, _ in back} == {sent[1].cursor}  # cut here, it begins there again
    assert [event for _, event in back if event in [event for _, event in sent]] == [sent[1].event, sent[2].event]
    assert read.take() == ()
    assert read.cursor.server != sent[1].cursor.server


def test_a_client_that_is_slow_misses_nothing(scene: Scene) -> None:
    """What it did not take has left the ring."""
    server = scene.server(ring_max=2)
    following = server.follow()
    for _ in range(5):
        scene.append(0)
        server.look()
    numbers = [event.number for _, event in following.take() if isinstance(event, Change)]
    assert sorted(set(numbers) & {2, 3, 4, 5, 6}) == [2, 3, 4, 5, 6]
    scene.append(0)
    server.look()
    assert told(following.take()) == ["Appended 0:7"]


def test_what_a_compactor_here_does_is_looked_at_at_once_and_told_once(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    scene.append(0)
    keys = keys_of(scene, 0)
    emitted = Appended(
        topic="t", topic_id=keys.topic_id, partition=0, manifest=2, segment="s", offset=0, size=Amount(1, 1, 1)
    )
    server.sink(emitted)
    with scene.requests() as made:
        server.look_where_woken()
    assert told(following.take()) == ["Appended 0:2"]
    assert made[0] < 8  # the other partition was not asked
    server.look()
    server.sink(emitted)
    server.look_where_woken()
    assert following.take() == ()


def test_topics_and_partitions_that_come_and_go(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    scene.wait(20_000)
    scene.warehouse.create_topic("u", probe=False)
    scene.topic.alter(partitions=3)
    server.look()
    got = told(following.take())
    assert {"PartitionCreated 0:1", "PartitionCreated 2:1"} <= set(got)
    scene.wait(20_000)
    scene.warehouse.delete_topic("u")
    scene.warehouse.create_topic("u", probe=False)
    server.look()
    sent = following.take()
    assert sorted(told(sent)) == ["PartitionCreated 0:1", "PartitionSealed 0:2"]
    assert len({event.topic_id for _, event in sent}) == 2
    for _ in range(2):
        scene.wait(3 * LINGER_MS)
        server.look()
    scene.wait(LOOK_MS)
    with scene.requests() as made:
        server.look()
    assert made == [8]  # three partitions of t and one of u: the deleted one is let go


def test_a_topic_that_was_deleted_meanwhile_is_told_elsewhere(scene: Scene) -> None:
    following = scene.server().follow(Asked("t"))
    cursor = following.cursor
    scene.append(1)
    scene.warehouse.delete_topic("t")
    again = scene.server().follow(Asked("t"), cursor)
    assert sum(isinstance(event, PartitionSealed) for _, event in again.take()) == 2


class Away(Driver):
    """A store that does not answer some requests."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.store)
        self.refuses: Callable[[Request[Any]], bool] = lambda _: False
        answer = self.answer

        def answer_or_fail(request: Request[Any]) -> Any:
            if self.refuses(request):
                raise Unavailable("the store is away")
            return answer(request)

        self.answer = answer_or_fail
        self.monotonic_ms = scene.clock


def reads(folder: str) -> Callable[[Request[Any]], bool]:
    return lambda request: isinstance(request, Get) and folder in request.key


def test_one_partition_that_cannot_be_read_holds_up_no_other_and_the_cursors_wait_for_it(scene: Scene) -> None:
    driver = Away(scene)
    server = Feed(driver, threads=1)
    following = server.follow()
    began_ms = scene.clock.now_ms
    driver.refuses = reads("/00000/manifest/")
    for _ in range(2):
        scene.wait(20_000)
        scene.append(0)
        scene.append(1)
        server.look()
    sent = following.take()
    assert told(sent) == ["Trouble", "Appended 1:2", "Appended 1:3"]
    assert following.cursor.at_ms == began_ms
    driver.refuses = lambda _: False
    scene.wait(20_000)
    server.look()
    assert sorted(told(following.take())) == ["Appended 0:2", "Appended 0:3", "Recovered"]
    assert following.cursor.at_ms == scene.clock.now_ms
    assert isinstance(sent[0].event, Trouble)
    assert sent[0].event.what == "changes not read"


@pytest.mark.parametrize("refuses", [lambda request: isinstance(request, Folders), reads("u/config/")])
def test_topics_that_cannot_be_found_hold_the_cursors_back(
    scene: Scene, refuses: Callable[[Request[Any]], bool]
) -> None:
    """Or another server would not read back what came in them."""
    driver = Away(scene)
    server = Feed(driver, threads=1)
    following = server.follow()
    began_ms = scene.clock.now_ms
    driver.refuses = refuses
    scene.warehouse.create_topic("u", probe=False)
    for _ in range(2):
        scene.wait(MARGIN_MS)
        server.look()
    assert told(following.take()) == ["Trouble"]
    assert following.cursor.at_ms == began_ms
    elsewhere = scene.server().follow(cursor=following.cursor)
    assert "PartitionCreated 0:1" in told(elsewhere.take())
    driver.refuses = lambda _: False
    scene.wait(MARGIN_MS)
    server.look()
    assert sorted(told(following.take())) == ["PartitionCreated 0:1", "Recovered"]


def test_a_topic_that_could_not_be_read_at_the_beginning_is_read_from_the_cursor_on(scene: Scene) -> None:
    cursor = scene.server().follow().cursor
    scene.wait(5)
    scene.append(0)
    scene.wait(5 * MARGIN_MS)
    driver = Away(scene)
    server = Feed(driver, threads=1)
    driver.refuses = reads("t/config/")
    following = server.follow(cursor=cursor)
    driver.refuses = lambda _: False
    scene.wait(MARGIN_MS)
    server.look()
    assert "Appended 0:2" in told(following.take())


def test_what_a_slow_creator_made_long_before_it_announced_the_topic_is_told(scene: Scene) -> None:
    server, elsewhere = scene.server(), scene.server()
    following = server.follow()
    driver = scene.driver()
    answer = driver.answer

    def answer_slowly(request: Request[Any]) -> Any:
        if isinstance(request, Create) and "u/config/" in request.key:
            scene.wait(5 * MARGIN_MS)
            server.look()
        return answer(request)

    driver.answer = answer_slowly
    Warehouse(driver).create_topic("u", probe=False)
    assert following.take() == ()
    cursor = following.cursor
    scene.wait(20_000)
    server.look()
    assert told(following.take()) == ["PartitionCreated 0:1"]
    assert "PartitionCreated 0:1" in told(elsewhere.follow(Asked("u"), cursor).take())


def test_the_seal_of_a_deletion_that_was_interrupted_is_told(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    driver = Away(scene)
    driver.refuses = lambda request: isinstance(request, Create) and "/manifest/" in request.key
    with pytest.raises(Unavailable):
        Warehouse(driver).delete_topic("t")
    for _ in range(4):
        scene.wait(MARGIN_MS)
        server.look()
    scene.warehouse.driver.run(PartitionFiles(keys_of(scene, 1)).manifest.commit(Seal()))
    scene.wait(LOOK_MS)
    server.look()
    assert told(following.take()) == ["PartitionSealed 1:2"]


def keys_of(scene: Scene, partition: int) -> PartitionKeys:
    found = scene.warehouse.driver.run(topic_lineage("t").refresh()).value
    assert found is not None
    return PartitionKeys("t", found.topic_id, partition)


def test_clients_in_many_threads_get_everything_once() -> None:
    """A server that runs, two compactors' worth of writers, and clients that wait."""
    scene = Scene()
    driver = Driver(scene.store)
    server = Feed(driver)
    runs = threading.Thread(target=server.run)
    followings = [server.follow() for _ in range(3)]
    runs.start()

    def until_all(following: Following) -> list[str]:
        got: list[str] = []
        with closing(following):
            while len(got) < 20 and (sent := following.take(wait_s=60)):
                got += told(sent)
        return got

    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(until_all, following) for following in followings]
        writing = [pool.submit(lambda n=n: [scene.append(n) for _ in range(10)]) for n in range(2)]
        got = [each.result() for each in (*writing, *waiting)][2:]
    server.close()
    runs.join()
    expected = sorted(f"Appended {partition}:{number}" for partition in range(2) for number in range(2, 12))
    assert [sorted(each) for each in got] == [expected] * 3


def test_a_server_that_closes_wakes_its_clients(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(following.take, 600)
        server.close()
        assert waiting.result() == ()
