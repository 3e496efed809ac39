"""The events of a warehouse for the clients of one server: each continues where it stopped (docs/rfcs/0018, Events).

The server looks at the heads of the chains that clients follow, and puts what came into one ring. A client that comes
back takes what it has missed from there; if that is not possible, the files are read back.
"""

import threading
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress

from lithify.events.chain import MARGIN_MS
from lithify.events.finding import Finder, Found
from lithify.events.notices import Gap
from lithify.events.readings import Behind, Readings
from lithify.events.stream import RING_MAX, Asked, Cursor, Ring, Sent
from lithify.events.troubles import Troubles
from lithify.events.types import Change, Event
from lithify.events.watched import GIVE_UP_MS, LINGER_MS, Scope, Watched
from lithify.manifest.ages import young
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import attempt
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError, NotFound
from lithify.store.port import NewId

__all__ = ["LOOK_MS", "TOPICS_MS", "Feed", "Following"]

LOOK_MS = 2_000  # between two looks at all chains that somebody follows
TOPICS_MS = 10_000  # between two looks for topics and partitions that are new
THREADS = 8
EVERYTHING = Asked()


class Feed:
    """Thread-safe. One thread calls `run`; others follow, and emit events into `sink`."""

    def __init__(self, driver: Driver, *, ring_max: int = RING_MAX, threads: int = THREADS) -> None:
        self._driver = driver
        self._reading = threading.Lock()  # held over requests: one round, or one client that is let in, at a time
        self._settled: dict[str, int] = {}  # by topic: unreadable versions up to this one need no gap any more
        self._news = threading.Condition()  # guards all that follows; never held over a request
        self._ring = Ring(driver.answer(NewId()), ring_max)
        self._at_ms = 0  # every change that a client follows and that could be read before this is in the ring
        self._scopes: dict[Asked, Scope] = {}
        self._watched: dict[PartitionKeys, Watched] = {}
        self._woken = self._closed = False
        self._troubles = Troubles(self._add)
        self._finder = Finder(driver, self._troubles)
        self._readings = Readings(driver, self._troubles, threads)

    def run(self) -> None:
        """Look every two seconds, and at once where `sink` was told of a change, until `close`. While nobody follows,
        no request is made."""
        due_ms = self._driver.monotonic_ms()
        while True:
            with self._news:
                # SUBTLE! A first client wakes this thread, and may have looked for itself before we run: then nothing
                # is woken, but from now on there is a next look to wait for. Test:
                # tests/admin/http/test_streams.py
                while not (self._closed or self._woken):
                    left_ms = due_ms - self._driver.monotonic_ms() if self._scopes else None
                    if left_ms is not None and left_ms <= 0:
                        break
                    self._news.wait(None if left_ms is None else left_ms / 1000)
                if self._closed:
                    return
            if self._driver.monotonic_ms() < due_ms:
                looked = attempt(self.look_where_woken)
            else:
                looked = attempt(self.look)
                due_ms = self._driver.monotonic_ms() + LOOK_MS
            self._troubles.tell("changes not read", looked)  # and goes on: nobody else looks

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()

    def sink(self, event: Event) -> None:
        """For a compactor or collector of this process. A change only says where to look, so that the changes of a
        chain come in order, and each once; a notice is sent on."""
        if not isinstance(event, Change):
            self._add(event)
            return
        with self._news:
            watched = self._watched.get(PartitionKeys(event.topic, event.topic_id, event.partition or 0))
            if watched is not None:
                watched.woken = self._woken = True
                self._news.notify_all()

    @property
    def idle(self) -> bool:
        """Nobody follows anything, and nothing is kept for whoever might."""
        return not any((self._scopes, self._watched, self._settled, self._finder.topics))

    def look(self) -> None:
        """One round over all chains that somebody follows."""
        with self._reading:
            self._let_go()
            for scope in tuple(self._scopes.values()):
                if scope.looked_ms is None or not young(scope.looked_ms, self._driver.monotonic_ms(), TOPICS_MS):
                    with suppress(LithifyError):  # it is told; the next round tries again
                        self._find(scope)
            self._look_at(self._watched.values())

    def look_where_woken(self) -> None:
        with self._reading:
            self._look_at([each for each in self._watched.values() if each.woken])

    def follow(self, asked: Asked = EVERYTHING, cursor: Cursor | None = None) -> "Following":
        """From `cursor` on, or from now. Raises NotFound if there is no such topic or partition, and what the listing
        of topics raises; without a cursor also what reading the topic raises."""
        with ExitStack() as undo:
            with self._reading:
                scope = self._enter(asked)
                undo.callback(self._turn_away, scope)
                self._find(scope)
                self._look_at([self._watched[keys] for keys in scope.partitions if not self._begun(keys)])
                behind = None if cursor is None else self._behind(scope, cursor)
                here = self._here() if behind is None else behind.here
            missed = () if behind is None else self._readings.back(behind)  # while others look, follow and begin
            nothing = cursor is None or (behind is not None and not missed)
            if asked.topic is not None and not scope.partitions and nothing:
                missing = NotFound(f"{asked.name} does not exist here; check the name")
                raise missing if scope.unread is None else scope.unread.error()
            undo.pop_all()
            return Following(self, scope, cursor if cursor is not None and behind is None else here, missed)

    # Of `Following`

    def taken(self, following: "Following", scope: Scope, wait_s: float) -> tuple[Sent, ...]:
        with self._news:
            before = following.here
            self._news.wait_for(lambda: self._closed or self._ring.last > before.sequence, wait_s)
            if self._ring.holds(before):
                following.here = Cursor(self._ring.server, self._ring.last, self._at_ms)
                return tuple(each for each in self._ring.after(before.sequence) if scope.asked.takes(each.event))
        with self._reading:  # it was too slow: what it has not taken has left the ring
            behind = self._behind(scope, before)
        if behind is None:
            return ()
        missed = self._readings.back(behind)
        following.here = behind.here
        return missed

    def _here(self) -> Cursor:
        with self._news:
            return Cursor(self._ring.server, self._ring.last, self._at_ms)

    def _enter(self, asked: Asked) -> Scope:
        now_ms = self._driver.now_ms()
        with self._news:
            scope = self._scopes.setdefault(asked, Scope(asked, now_ms, self._ring.last + 1))
            scope.clients += 1
            self._woken = True
            self._news.notify_all()
            return scope

    def leave(self, scope: Scope) -> None:
        with self._news:
            self._left(scope)

    def _left(self, scope: Scope) -> None:
        scope.clients -= 1
        scope.left_ms = self._driver.monotonic_ms()

    def _turn_away(self, scope: Scope) -> None:
        """Whoever was refused comes back with no cursor, so that nothing is kept for it."""
        with self._news:
            self._left(scope)
            if not scope.clients and not scope.partitions:
                del self._scopes[scope.asked]

    # What makes requests. Requires: `_reading`

    def _find(self, scope: Scope) -> None:
        """Which partitions are followed now."""
        now_ms = self._driver.now_ms()
        with self._news:
            scopes = {scope, *self._scopes.values()}
        # Of other clients too: what is new to any of them is read from its beginning, for all.
        since_ms = min(each.found_ms - (0 if each.looked_ms is None else MARGIN_MS) for each in scopes)
        found = self._finder.partitions(scope.asked, since_ms)
        self._tell_of_unreadable(scopes, found, now_ms)
        mine_ms, gone = self._driver.monotonic_ms(), scope.partitions.difference(found.partitions)
        scope.gone = {keys: scope.gone.get(keys, mine_ms) for keys in gone}
        ended: set[PartitionKeys] = set()
        for keys, gone_ms in scope.gone.items():
            gaps = self._watched[keys].ending(now_ms, patient=young(gone_ms, mine_ms, GIVE_UP_MS))
            if gaps is not None:
                ended.add(keys)
                for gap in gaps:
                    self._add(gap)
        with self._news:
            for keys, from_ms in found.partitions.items():
                # SUBTLE! 1. A client has all up to 7, and goes. 2. Nobody follows; changes come, but not into the ring.
                # 3. It comes back: 7 is still the last. So whoever has all up to the last may have missed something.
                # Test: tests/events/test_feed.py
                if keys not in self._watched:
                    sequence = self._ring.last + 1 if from_ms else 0
                    self._watched[keys] = Watched(keys, from_ms, since_ms, sequence)
            scope.partitions = scope.partitions.union(found.partitions) - ended
            scope.looked_ms = self._driver.monotonic_ms()
            scope.found_ms = scope.found_ms if found.unread else now_ms
            scope.unread = next(iter(found.unread.values()), None)

    def _tell_of_unreadable(self, scopes: Collection[Scope], found: Found, now_ms: int) -> None:
        """Of versions of topics that came since somebody has followed them."""
        others = [each for each in scopes if each.looked_ms is not None]
        for topic, newest in found.newest.items():
            last = found.unreadable.get(topic, 0)
            if not any(each.asked.topic in (None, topic) for each in others):
                last = newest
            elif last > self._settled.get(topic, 0):
                self._add(_gap(topic, now_ms))
            self._settled[topic] = max(last, self._settled.get(topic, 0))

    def _look_at(self, watched: Iterable[Watched]) -> None:
        all_watched = tuple(watched)
        with self._news:
            for each in all_watched:
                each.woken = False
            self._woken = any(each.woken for each in self._watched.values())
        self._readings.each(self._look_at_one, all_watched)
        with self._news:
            times = [each.looked_ms for each in self._watched.values()]
            self._at_ms = min((*times, *(scope.found_ms for scope in self._scopes.values())), default=self._at_ms)

    def _look_at_one(self, watched: Watched) -> None:
        for event in self._readings.read(watched.keys, watched.chains, lambda chain: chain.look()):
            self._add(event)

    def _behind(self, scope: Scope, cursor: Cursor) -> Behind | None:
        """What the client at `cursor` has not, up to here; None: it is all in the ring.

        SUBTLE! What it missed of a topic that cannot be read is a gap, told at once. 1. We note that this is to be read
        back once it can be. 2. Another client finds that topic, from its own time on, for the ring. 3. To us nothing
        is told of what came before. Test: tests/events/test_feed_refused.py
        """
        with self._news:
            held = self._ring.holds(cursor)
            if held and scope.sequence <= cursor.sequence:
                return None
        now_ms = self._driver.now_ms()
        read = self._finder.partitions(scope.asked, cursor.at_ms - MARGIN_MS)
        found, gaps = read.partitions, [_gap(topic, now_ms) for topic in (*read.unread, *read.unreadable)]
        with self._news:
            held = self._ring.holds(cursor)
            # SUBTLE! Not those that another scope alone has found. 1. Its client goes, and they are let go of before
            # what happened in them has been read. 2. Our scope finds them, from its own time on. Test:
            # tests/events/test_feed_lost.py
            ours = {keys: self._watched[keys] for keys in scope.partitions.intersection(found)}
            kept = {keys for keys, each in ours.items() if held and each.sequence <= cursor.sequence}
            if held and kept.issuperset(found) and not gaps:
                return None
            rest = self._ring.after(cursor.sequence) if held else ()
            told = [e for _, e in rest if scope.asked.takes(e) and (not isinstance(e, Change) or _keys(e) in kept)]
            # What is not followed is read up to now, and what is followed up to where the ring goes on.
            chains = {
                keys: [chain.here() for chain in ours[keys].chains] if keys in ours else None
                for keys in found
                if keys not in kept
            }
            here = Cursor(self._ring.server, self._ring.last, self._at_ms)
        return Behind(cursor, here, {keys: (found[keys], each) for keys, each in chains.items()}, [*gaps, *told])

    def _let_go(self) -> None:
        now_ms = self._driver.monotonic_ms()
        with self._news:
            scopes = self._scopes.items()
            self._scopes = {a: each for a, each in scopes if each.clients or young(each.left_ms, now_ms, LINGER_MS)}
            kept = {keys for scope in self._scopes.values() for keys in scope.partitions}
            self._watched = {keys: each for keys, each in self._watched.items() if keys in kept}
            if not self._scopes:
                self._finder.forget()
            kept_topics = set(self._finder.topics)
            self._settled = {topic: number for topic, number in self._settled.items() if topic in kept_topics}

    def _begun(self, keys: PartitionKeys) -> bool:
        return all(chain.begun for chain in self._watched[keys].chains)

    def _add(self, event: Event) -> None:
        with self._news:
            self._ring.add(event, self._at_ms)
            self._news.notify_all()


class Following:
    """One client. One thread at a time."""

    def __init__(self, feed: Feed, scope: Scope, here: Cursor, missed: tuple[Sent, ...]) -> None:
        self.here = here  # where the ring goes on
        self._feed = feed
        self._scope = scope
        self._missed = missed

    @property
    def cursor(self) -> Cursor:
        """How far a client is that was sent all that `take` has returned: for a first event, and signs of life."""
        return self._missed[0].cursor if self._missed else self.here

    def take(self, wait_s: float = 0) -> tuple[Sent, ...]:
        """What came since the last call. If there is nothing, waits; may then still return nothing."""
        if self._missed:
            missed, self._missed = self._missed, ()
            return missed
        return self._feed.taken(self, self._scope, wait_s)

    def close(self) -> None:
        self._feed.leave(self._scope)


def _gap(topic: str, now_ms: int) -> Gap:
    return Gap(topic=topic, chain=None, number=0, from_ms=now_ms)


def _keys(change: Change) -> PartitionKeys:
    return PartitionKeys(change.topic, change.topic_id, change.partition or 0)
