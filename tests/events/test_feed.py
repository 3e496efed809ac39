"""Clients of one server's events: from now on, from a cursor, from another server's cursor. That no change is missing
whatever happens is a property: tests/properties/test_streams.py."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from lithify.events.chain import MARGIN_MS
from lithify.events.feed import LOOK_MS, Feed, Following
from lithify.events.notices import CollectionEnded
from lithify.events.stream import Asked, Cursor
from lithify.events.types import Amount, Appended, Change, PartitionSealed
from lithify.events.watched import LINGER_MS
from lithify.manifest.keys import TopicKeys
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound
from lithify.store.port import Get, Request
from tests.events.serving import Away, Scene, keys_of, told
from tests.unreadable import UNREADABLE, Rewrite, rewrite

ENDED = CollectionEnded(swept=False, objects=1, bytes=2, waiting=0, failed=0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


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


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_topic_that_cannot_be_read_is_not_told_as_missing(change: Rewrite, scene: Scene) -> None:
    server = scene.server()
    server.follow(Asked())
    scene.topic.alter({"retention.ms": "1000000000"})
    scene.topic.alter({"retention.ms": "2000000000"})
    key = TopicKeys("t").config.key(3)
    rewrite(scene.store, key, change)
    with pytest.raises((Corrupt, InvalidRequest), match=key):
        server.follow(Asked("t"))


def test_who_was_refused_leaves_nothing_to_look_after(scene: Scene) -> None:
    """Each name that somebody made up was looked for every ten seconds, for a minute."""
    server = scene.server()
    for topic in ("nothing", "no name", "t"):
        with pytest.raises(LithifyError):
            server.follow(Asked(topic, 99))
    scene.wait(11_000)
    with scene.requests() as made:
        server.look()
    assert made == [0]


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
    assert read.cursor == sent[1].cursor
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


def test_while_one_client_reads_back_all_others_get_what_comes(scene: Scene) -> None:
    """A client that comes back after a day reads back thousands of files."""
    scene.wait(2 * MARGIN_MS)
    old = scene.server().follow().cursor
    for _ in range(2):
        scene.wait(2 * MARGIN_MS)
        scene.append(0)
    driver = Away(scene)
    server = Feed(driver, threads=1)
    first = server.follow()
    got: list[str] = []

    def meanwhile() -> None:
        second = server.follow()
        scene.append(0)
        server.look()
        server.sink(ENDED)
        got.extend([*told(first.take()), *told(second.take())])

    def reads_back(request: Request[Any]) -> bool:
        if isinstance(request, Get) and request.key == keys_of(scene, 0).manifest.key(2):
            driver.refuses = lambda _: False
            thread = threading.Thread(target=meanwhile, daemon=True)
            thread.start()
            thread.join(60)
        return False

    driver.refuses = reads_back
    third = server.follow(cursor=old)
    assert got == 2 * ["Appended 0:4", "CollectionEnded"]
    assert told(third.take()) == ["Appended 0:2", "Appended 0:3"]
    assert told(third.take()) == ["Appended 0:4", "CollectionEnded"], "what came meanwhile, each once"


def test_what_a_compactor_here_does_is_looked_at_at_once_and_told_once(scene: Scene) -> None:
    driver, asked = Away(scene), list[str]()
    server = Feed(driver, threads=1)
    following = server.follow()
    scene.append(0)
    keys = keys_of(scene, 0)
    emitted = Appended(
        topic="t", topic_id=keys.topic_id, partition=0, manifest=2, segment="s", offset=0, size=Amount(1, 1, 1)
    )
    server.sink(emitted)

    def notes(request: Request[Any]) -> bool:
        asked.append(str(request))
        return False

    driver.refuses = notes
    server.look_where_woken()
    assert told(following.take()) == ["Appended 0:2"]
    assert any("/00000/" in each for each in asked)
    assert not any("/00001/" in each for each in asked)  # the other partition was not asked
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


def test_what_one_client_kept_in_the_ring_is_not_read_back_for_another(scene: Scene) -> None:
    """Of the partitions that it asks for one was followed by others all the time, and one was not."""
    server = scene.server()
    server.follow(Asked("t", 0))
    following = server.follow()
    scene.append(0)
    server.look()
    (sent,) = following.take()
    following.close()
    scene.wait(2 * LINGER_MS)
    server.look()
    scene.append(0)
    scene.append(1)
    server.sink(ENDED)
    server.look()
    again = server.follow(cursor=sent.cursor)
    got = told(again.take())
    assert sorted(got) == ["Appended 0:3", "Appended 1:2", "CollectionEnded", "PartitionCreated 1:1"]


def test_a_topic_that_one_client_finds_first_is_told_to_all_that_wait_for_it(scene: Scene) -> None:
    server = scene.server()
    following = server.follow()
    scene.wait(5_000)
    scene.warehouse.create_topic("u", probe=False)
    scene.wait(1)
    server.follow(Asked("u"))
    assert told(following.take()) == ["PartitionCreated 0:1"]


def test_who_comes_back_to_a_topic_that_is_gone_gets_its_end(scene: Scene) -> None:
    server = scene.server()
    following = server.follow(Asked("t"))
    scene.append(0)
    server.look()
    (sent,) = following.take()
    scene.warehouse.delete_topic("t")
    scene.wait(1)
    server.look()
    scene.wait(MARGIN_MS + 1)
    server.look()
    scene.wait(MARGIN_MS + 1)
    assert told(server.follow(Asked("t"), sent.cursor).take()) == ["PartitionSealed 0:3", "PartitionSealed 1:2"]
    with pytest.raises(NotFound):
        scene.server().follow(Asked("t"))


@pytest.mark.slow
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
