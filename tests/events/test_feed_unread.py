"""Clients of a server that cannot read everything, or not in time: what they are told, how cursors wait for it, and
what comes of it once it can be read."""

from collections.abc import Callable
from typing import Any

import pytest

from lithify.events.chain import MARGIN_MS
from lithify.events.feed import LOOK_MS, Feed
from lithify.events.notices import CollectionEnded, Gap, Trouble
from lithify.events.stream import Asked
from lithify.log.warehouse import Warehouse
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Unavailable
from lithify.store.port import Create, Folders, Get, Request
from tests.events.serving import Away, Scene, keys_of, told

ENDED = CollectionEnded(swept=False, objects=1, bytes=2, waiting=0, failed=0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


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


def test_what_came_in_a_topic_that_could_not_be_read_at_the_beginning_is_a_gap_and_what_comes_is_told(
    scene: Scene,
) -> None:
    cursor = scene.server().follow().cursor
    scene.wait(5)
    scene.append(0)
    scene.wait(5 * MARGIN_MS)
    driver = Away(scene)
    server = Feed(driver, threads=1)
    driver.refuses = reads("t/config/")
    following = server.follow(cursor=cursor)
    sent = following.take()
    assert told(sent) == ["Gap"]
    assert [(e.topic, e.partition, e.chain, e.number, e.from_ms) for _, e in sent if isinstance(e, Gap)] == [
        ("t", None, None, 0, scene.clock.now_ms)
    ]
    scene.append(1)
    driver.refuses = lambda _: False
    scene.wait(MARGIN_MS)
    server.look()
    assert told(following.take()) == ["Recovered", "Appended 1:2"], "its trouble came before the client"


@pytest.mark.parametrize("followed", [False, True])
def test_what_cannot_be_read_back_is_a_gap(scene: Scene, followed: bool) -> None:
    cursor = scene.server().follow().cursor
    scene.wait(5)
    scene.append(0)
    scene.append(1)
    driver = Away(scene)
    server = Feed(driver, threads=1)
    if followed:
        server.follow()
    scene.wait(MARGIN_MS // 2)
    driver.refuses = reads("/00000/manifest/")
    sent = server.follow(cursor=cursor).take()
    assert {"Gap", "Appended 1:2"} <= set(told(sent))
    assert [(e.partition, e.chain) for _, e in sent if isinstance(e, Gap)] == [(0, "manifest")]


def test_what_nobody_follows_and_cannot_be_read_back_is_a_gap_up_to_now(scene: Scene) -> None:
    cursor = scene.server().follow().cursor
    scene.append(0)
    scene.warehouse.delete_topic("t")
    scene.wait(5 * MARGIN_MS)
    driver = Away(scene)
    driver.refuses = reads("/00000/manifest/")
    sent = Feed(driver, threads=1).follow(cursor=cursor).take()
    assert "PartitionSealed 1:2" in told(sent)
    (gap,) = [event for _, event in sent if isinstance(event, Gap)]
    assert (gap.partition, gap.chain, gap.number, gap.from_ms) == (0, "manifest", 0, scene.clock.now_ms)


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
