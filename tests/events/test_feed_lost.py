"""What was lost without a word when one request failed, each in a history of its own; and what was kept for ever."""

from typing import Any

import pytest

from lithify.compactor.compactor import Compactor
from lithify.events import chain, feed, finding
from lithify.events.chain import MARGIN_MS
from lithify.events.feed import LOOK_MS, TOPICS_MS, Feed, Following
from lithify.events.notices import Gap
from lithify.events.stream import Asked
from lithify.events.watched import GIVE_UP_MS, LINGER_MS
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.keys import TopicKeys
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import NotFound, Unavailable
from lithify.store.port import Create, Now, Request
from tests.events.serving import Away, Scene, told
from tests.unreadable import UNREADABLE, Rewrite, rewrite

COMPACTED = {"cleanup.policy": "compact", "l0.segments.tier": "2"}


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.wait(10 * MARGIN_MS)
    return scene


@pytest.fixture
def driver(scene: Scene) -> Away:
    return Away(scene)


@pytest.fixture
def server(driver: Away) -> Feed:
    return Feed(driver, threads=1)


class Refuses:
    """The first so many requests with this in their keys."""

    def __init__(self, part: str, times: int) -> None:
        self.part = part
        self.times = times

    def __call__(self, request: Request[Any]) -> bool:
        refused = self.times > 0 and self.part in getattr(request, "key", "")
        self.times -= refused
        return refused


def look(
    scene: Scene, server: Feed, times: int, following: Following | None = None, wait_ms: int = LOOK_MS
) -> list[str]:
    """What a client is told meanwhile."""
    found: list[str] = []
    for _ in range(times):
        scene.wait(wait_ms)
        server.look()
        found += [] if following is None else told(following.take())
    return found


@pytest.mark.parametrize("times", [0, 1])
def test_what_the_ring_has_told_to_a_former_client(scene: Scene, driver: Away, server: Feed, times: int) -> None:
    """1. A client is told of a new topic, and goes; after a minute that is let go of. 2. Another comes from elsewhere,
    and a look fails. 3. The next one finds what is in the ring already, below its place there."""
    server.follow(Asked("t", 1))
    cursor = scene.server().follow().cursor
    look(scene, server, 5)
    scene.warehouse.create_topic("new", 1, probe=False)
    former = server.follow(Asked("new"))
    scene.warehouse.topic("new").append([Record(None, b"v")])
    assert told(former.take()) + look(scene, server, 1, former) == ["Appended 0:2"]
    former.close()
    look(scene, server, 40)
    driver.refuses = Refuses("/manifest/", times)
    following = server.follow(Asked("new"), cursor)
    found = told(following.take()) + look(scene, server, 10, following)
    assert {"PartitionCreated 0:1", "Appended 0:2"} <= set(found)
    assert ("Gap" in found) == (times > 0)


@pytest.mark.parametrize("times", [0, 1])
def test_what_only_another_client_s_scope_follows(scene: Scene, driver: Away, server: Feed, times: int) -> None:
    """1. Two clients follow a partition; one goes, with all it has. 2. The partition cannot be read; something is
    appended, and the other goes, too. 3. The first one comes back, and its topic cannot be read. 4. A minute after the
    other had gone, the partition is let go of. 5. It is found anew, from when the first one came back."""
    other, mine = server.follow(Asked("t")), Asked("t", 0)
    scene.append(1)
    look(scene, server, 1)
    first = server.follow(mine)
    first.close()
    driver.refuses = away = Refuses("/manifest/", 1 << 60)
    scene.append(0)
    look(scene, server, 30)
    other.close()
    look(scene, server, LINGER_MS // LOOK_MS - 1)
    config = Refuses("/config/", times)
    driver.refuses = lambda request: config(request) or away(request)
    again = server.follow(mine, first.cursor)
    found = told(again.take()) + look(scene, server, 3, again)
    driver.refuses = lambda _: False
    found += look(scene, server, 40, again)
    assert "Appended 0:2" in found or "Gap" in found


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_the_jobs_of_a_deleted_topic_whose_compactor_cannot_be_read(
    scene: Scene, driver: Away, server: Feed, times: int
) -> None:
    """It was let go of a minute after the seal."""
    topic = scene.warehouse.create_topic("c", 1, COMPACTED, probe=False)
    following = server.follow()
    for _ in range(3):
        topic.append([Record(b"k", b"v")] * 2)
    Compactor(scene.warehouse, engine="local").run_once()
    scene.warehouse.delete_topic("c")
    driver.refuses = Refuses("/compactor/", times)
    found = look(scene, server, 8, following, LINGER_MS + 1)
    assert "JobEnded 0:3" in found
    assert "Gap" not in found


def test_what_is_gone_and_cannot_be_read_is_given_up_with_a_gap(scene: Scene, driver: Away, server: Feed) -> None:
    """Or the cursors of all would wait for ever."""
    scene.warehouse.create_topic("c", 1, COMPACTED, probe=False)
    following = server.follow()
    scene.warehouse.delete_topic("c")
    driver.refuses = lambda request: getattr(request, "key", "").startswith("c/") and "/compactor/" in str(request)
    found = look(scene, server, GIVE_UP_MS // 60_000, following, 60_000)
    assert "PartitionSealed 0:2" in found
    assert "Gap" not in found
    assert following.cursor.at_ms < scene.clock.now_ms - MARGIN_MS
    scene.wait(5 * MARGIN_MS)
    server.look()
    assert [(e.chain, e.from_ms) for _, e in following.take() if isinstance(e, Gap)] == [
        ("compactor", scene.clock.now_ms)
    ]
    look(scene, server, 1, following)
    assert scene.clock.now_ms - following.cursor.at_ms <= TOPICS_MS


@pytest.mark.parametrize("times", [0, 1])
@pytest.mark.parametrize("skew_ms", [-40_000, 0, 40_000])
def test_a_client_of_a_server_whose_clock_differs(
    scene: Scene, driver: Away, server: Feed, skew_ms: int, times: int
) -> None:
    """By the server's clock what comes next was there before the client."""
    scene.append(0)
    scene.wait(10 * MARGIN_MS)
    answer = driver.answer
    driver.answer = lambda request: answer(request) + skew_ms if isinstance(request, Now) else answer(request)
    driver.refuses = Refuses("/00000/manifest/", times)
    following = server.follow(Asked("t"))
    scene.wait(1_000)
    scene.append(0)
    assert "Appended 0:3" in look(scene, server, 4, following)


@pytest.mark.parametrize("times", [1, 10])
def test_a_new_partition_that_cannot_be_read_does_not_send_all_clients_back_to_the_beginning(
    scene: Scene, driver: Away, server: Feed, times: int
) -> None:
    following, other = server.follow(), server.follow(Asked("t", 0))
    scene.wait(11_000)
    scene.warehouse.create_topic("new", 1, probe=False)
    driver.refuses = lambda request: getattr(request, "key", "").startswith("new/") and "/manifest/" in str(request)
    look(scene, server, times)
    for client in (following, other):
        client.take()
        assert scene.clock.now_ms - client.cursor.at_ms < 2 * MARGIN_MS
    again = scene.server().follow(cursor=following.cursor)
    assert "PartitionCreated 0:1" in told(again.take())
    driver.refuses = lambda _: False
    assert "PartitionCreated 0:1" in look(scene, server, 1, following)


def test_names_that_nothing_has_are_not_remembered(scene: Scene, server: Feed) -> None:
    server.follow(Asked("t"))
    for number in range(10):
        with pytest.raises(NotFound):
            server.follow(Asked(f"nothing-{number}"))
    assert server._finder.topics == ["t"]


@pytest.mark.parametrize("away", [False, True])
def test_no_more_topics_are_remembered_than_twice_those_that_are_listed(
    scene: Scene, driver: Away, server: Feed, away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "KEPT_MAX", 2)
    for number in range(5):
        scene.warehouse.create_topic(f"topic-{number}", 1, probe=False)
    server.follow()
    assert len(server._finder.topics) == 6, "all of them, however few others are kept"
    driver.refuses = lambda request: away and "/config/" in getattr(request, "key", "")
    for number in range(20):
        if away:
            with pytest.raises(Unavailable):
                server.follow(Asked(f"made-up-{number}"))
        else:
            server.follow(Asked(f"topic-{number % 5}"))
    assert len(server._finder.topics) == (12 if away else 6)


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_client_is_not_told_of_what_was_unreadable_before_it_came(
    scene: Scene, server: Feed, change: Rewrite
) -> None:
    for partitions in (3, 4):
        scene.topic.alter(partitions=partitions)
    rewrite(scene.store, TopicKeys("t").config.key(2), change)
    scene.wait(5_000)
    following = server.follow()
    assert told(following.take()) + look(scene, server, 8, following, 11_000) == []


@pytest.mark.parametrize(("appends", "gaps"), [(9, 0), (10, 0), (11, 1)])
def test_as_many_files_as_may_be_read_are_no_gap(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, appends: int, gaps: int
) -> None:
    monkeypatch.setattr(chain, "FILES_MAX", 10)
    cursor = scene.server().follow(Asked("t", 0)).cursor
    scene.wait(10 * MARGIN_MS)
    for _ in range(appends):
        scene.append(0)
    found = told(scene.server().follow(Asked("t", 0), cursor).take())
    assert (found.count("Gap"), len(found)) == (gaps, min(appends, 10) + gaps)


def test_the_seal_of_a_deletion_that_was_interrupted_while_its_jobs_could_not_be_read(
    scene: Scene, driver: Away, server: Feed
) -> None:
    """Its manifests could be read all the time: they are followed until the seal has come."""
    scene.warehouse.create_topic("c", 1, COMPACTED, probe=False)
    following = server.follow()
    driver.refuses = lambda request: getattr(request, "key", "").startswith("c/") and "/compactor/" in str(request)
    look(scene, server, 3, following, GIVE_UP_MS // 2)
    deleter = Away(scene)
    deleter.refuses = lambda request: isinstance(request, Create) and "/manifest/" in request.key
    with pytest.raises(Unavailable):
        Warehouse(deleter).delete_topic("c")
    found = look(scene, server, 3, following, GIVE_UP_MS // 2)
    assert "Gap" not in found
    keys = next(keys for keys in server._watched if keys.topic == "c")
    scene.warehouse.driver.run(PartitionFiles(keys).manifest.commit(Seal()))
    assert "PartitionSealed 0:2" in look(scene, server, 1, following)
    assert "Gap" in look(scene, server, 3, following, GIVE_UP_MS // 2)


def test_what_is_given_up_is_told_once_however_many_follow_it(scene: Scene, driver: Away, server: Feed) -> None:
    scene.warehouse.create_topic("c", 1, COMPACTED, probe=False)
    following = server.follow()
    for asked in (Asked("c"), Asked("c", 0), Asked("t")):
        server.follow(asked)
    scene.warehouse.delete_topic("c")
    driver.refuses = lambda request: getattr(request, "key", "").startswith("c/") and "/compactor/" in str(request)
    assert look(scene, server, 6, following, GIVE_UP_MS // 2).count("Gap") == 1


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_version_that_was_there_before_the_cursor_is_no_gap(scene: Scene, change: Rewrite) -> None:
    """Nothing that it announced was missed: the next version names it, too."""
    scene.topic.alter(partitions=3)
    rewrite(scene.store, TopicKeys("t").config.key(2), change)
    scene.wait(60 * MARGIN_MS)
    cursor = scene.server().follow().cursor
    scene.topic.alter(partitions=4)
    found = told(scene.server().follow(cursor=cursor).take())
    assert "PartitionCreated 3:1" in found
    assert "Gap" not in found


@pytest.mark.parametrize("change", UNREADABLE)
def test_the_end_of_a_life_that_an_old_version_announced_is_a_gap(scene: Scene, change: Rewrite) -> None:
    """No other version names all of its partitions."""
    scene.topic.alter(partitions=3)
    then_ms = scene.clock.now_ms
    scene.wait(60 * MARGIN_MS)
    cursor = scene.server().follow().cursor
    scene.warehouse.delete_topic("t")
    scene.warehouse.create_topic("t", 1, probe=False)
    now_ms, scene.clock.now_ms = scene.clock.now_ms, then_ms
    rewrite(scene.store, TopicKeys("t").config.key(2), change)
    scene.clock.now_ms = now_ms
    assert "Gap" in told(scene.server().follow(cursor=cursor).take())


def test_a_server_whose_look_fails_in_an_unforeseen_way_goes_on(
    scene: Scene, driver: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients were sent signs of life, and nothing else, for ever."""
    server = Feed(driver, threads=1)
    following = server.follow()
    look_once, looks = server.look, list[int]()

    def fails_first() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            raise RuntimeError("can't start new thread")
        look_once()
        server.close()

    monkeypatch.setattr(server, "look", fails_first)
    monkeypatch.setattr(feed, "LOOK_MS", 0)
    server.run()
    assert looks == [0, 1]
    assert told(following.take())[0] == "Trouble"
