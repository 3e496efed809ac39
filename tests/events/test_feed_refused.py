"""A client that comes back while any requests fail, with and without others that follow the same: it is told all that
it missed, or that something is missing."""

from itertools import combinations
from typing import Any, NamedTuple

import pytest

from lithify.events.chain import MARGIN_MS
from lithify.events.feed import Feed, Following
from lithify.events.notices import Gap
from lithify.events.stream import Asked, Cursor, Sent
from lithify.manifest.keys import TopicKeys
from lithify.store.errors import NotFound, Unavailable
from lithify.store.port import NewId, Now, Request
from tests.events.serving import Away, Scene, told
from tests.unreadable import UNREADABLE, Rewrite, rewrite

ATTEMPTS_MAX = 30
PAIRS_OF = 12  # of the first so many requests any two fail


@pytest.fixture
def scene() -> Scene:
    return Scene()


def is_sent(request: Request[Any]) -> bool:
    """To the store."""
    return not isinstance(request, Now | NewId)


class Refusing(Away):
    """Refuses the requests with these numbers, from when it is told to count."""

    def __init__(self, scene: Scene, numbers: tuple[int, ...]) -> None:
        super().__init__(scene)
        self.counts = False
        self.made = 0
        self.left = set(numbers)
        self.refuses = self._refuses

    def _refuses(self, request: Request[Any]) -> bool:
        if not self.counts or not is_sent(request):
            return False
        self.made += 1
        refused = self.made in self.left
        self.left.discard(self.made)
        return refused


class CameBack(NamedTuple):
    sent: list[Sent]
    missed: set[str]  # what happened while it was away
    later: set[str]  # and after it had come back
    requests: int


def come_back(numbers: tuple[int, ...], asked: Asked, before: Asked | None, after: Asked | None) -> CameBack:
    """A client comes back to another server, whose requests with these `numbers` fail. `before` and `after`: what
    others follow there, who come before and after it."""
    scene = Scene()
    elsewhere = scene.server()
    all_of_it = elsewhere.follow()
    cursor = all_of_it.cursor
    scene.wait(5)
    scene.append(0)
    scene.append(1)
    scene.topic.alter(partitions=3)
    scene.wait(20_000)
    driver = Refusing(scene, numbers)
    server = Feed(driver, threads=1)
    if before is not None:
        server.follow(before)
        scene.wait(20_000)
    elsewhere.look()
    missed = told(all_of_it.take())
    driver.counts = True
    following = until_let_in(server, asked, cursor)
    if after is not None:
        until_let_in(server, after, None)
    sent = [*following.take(), *following.take()]
    for partition in range(3):
        scene.append(partition)
    for _ in range(3):
        scene.wait(20_000)
        server.look()
        sent += following.take()
    elsewhere.look()
    return CameBack(sent, set(missed), set(told(all_of_it.take())), driver.made)


def until_let_in(server: Feed, asked: Asked, cursor: Cursor | None) -> Following:
    for _ in range(ATTEMPTS_MAX):
        try:
            return server.follow(asked, cursor)
        except (Unavailable, NotFound):
            continue
    raise AssertionError("it was never let in")


@pytest.mark.slow
@pytest.mark.parametrize("after", [None, Asked(), Asked("t")], ids=str)
@pytest.mark.parametrize("before", [None, Asked(), Asked("t"), Asked("t", 0)], ids=str)
@pytest.mark.parametrize("asked", [Asked(), Asked("t")], ids=str)
def test_one_request_that_fails(asked: Asked, before: Asked | None, after: Asked | None) -> None:
    found = come_back((), asked, before, after)
    assert set(told(tuple(found.sent))) >= found.missed | found.later
    assert len(found.missed) > 3
    assert len(found.later) == 3
    assert "Gap" not in told(tuple(found.sent))
    for number in range(1, found.requests + 1):
        is_told_all_or_of_a_gap((number,), asked, before, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [None, Asked("t")], ids=str)
@pytest.mark.parametrize("before", [None, Asked("t")], ids=str)
def test_two_requests_that_fail(before: Asked | None, after: Asked | None) -> None:
    for numbers in combinations(range(1, PAIRS_OF + 1), 2):
        is_told_all_or_of_a_gap(numbers, Asked("t"), before, after)


def is_told_all_or_of_a_gap(numbers: tuple[int, ...], asked: Asked, before: Asked | None, after: Asked | None) -> None:
    found = come_back(numbers, asked, before, after)
    events = set(told(tuple(found.sent)))
    gaps = [each.event for each in found.sent if isinstance(each.event, Gap)]
    assert events >= found.later, numbers
    for missing in found.missed - events:
        partition = int(missing.split()[1].split(":")[0])
        assert any(gap.partition in (None, partition) for gap in gaps), (numbers, missing)


def test_what_the_ring_holds_is_told_without_a_request(scene: Scene) -> None:
    driver = Away(scene)
    server = Feed(driver, threads=1)
    following = server.follow(Asked("t"))
    scene.append(0)
    server.look()
    (sent,) = following.take()
    following.close()
    scene.append(1)
    scene.wait(20_000)
    server.look()
    driver.refuses = is_sent
    again = server.follow(Asked("t"), sent.cursor)
    assert told(again.take()) == ["Appended 1:2", "Trouble"]


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_version_of_a_topic_that_nobody_can_read_is_a_gap_told_once(change: Rewrite, scene: Scene) -> None:
    """And what came after it is followed. It held back the cursors of all, and let nobody in, for good."""
    server = scene.server()
    first = server.follow()
    scene.wait(20_000)
    scene.topic.alter(partitions=3)
    scene.topic.alter(partitions=4)
    rewrite(scene.store, TopicKeys("t").config.key(2), change)
    second = server.follow(Asked("t"))
    for _ in range(3):
        scene.wait(20_000)
        server.look()
    created = ["PartitionCreated 2:1", "PartitionCreated 3:1"]
    events = told(first.take())
    assert sorted(event for event in events if event in ("Gap", *created)) == ["Gap", *created]
    assert second.take() == ()
    assert first.cursor.at_ms == scene.clock.now_ms


@pytest.mark.parametrize("change", UNREADABLE)
def test_who_comes_back_elsewhere_is_told_of_it_too(change: Rewrite, scene: Scene) -> None:
    cursor = scene.server().follow().cursor
    scene.append(1)
    for partitions in (3, 4):
        scene.topic.alter(partitions=partitions)
    rewrite(scene.store, TopicKeys("t").config.key(2), change)
    scene.wait(5 * MARGIN_MS)
    server = scene.server()
    sent = server.follow(cursor=cursor).take()
    assert {"Gap", "Appended 1:2"} <= set(told(sent))
    assert [each.event.partition for each in sent if isinstance(each.event, Gap)] == [None]
    assert server.follow(Asked("t")).take() == ()
