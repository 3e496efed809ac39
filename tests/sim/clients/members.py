"""Consumers: members of a group, each of which reads the whole topic, and those who read one partition."""

from collections.abc import Callable
from contextlib import nullcontext, suppress

from lithify.log.consumer import Consumer
from lithify.log.follow import Gap, OffsetReset
from lithify.log.record import Record
from lithify.log.topic_consumer import TopicConsumer
from lithify.store.errors import Fenced, InvalidRequest, NotFound
from tests.sim.cast import Violation
from tests.sim.clients.groups import Caller, Opening
from tests.sim.clients.site import Enough, Site
from tests.sim.clients.world import Process

__all__ = ["Broke", "follower", "is_committed", "member", "reader"]

Main = Callable[[Process], None]


class Broke(Exception):
    """The caller itself failed over what it was handed."""


def member(site: Site, name: str, reset: OffsetReset) -> Main:
    """Reads all partitions, in one way or another; ends its instances in one way or another."""
    site.groups.whole.add(name)

    def main(process: Process) -> None:
        while True:
            site.rest(process)
            opening = site.opens(process, name, reset)
            with site.outages("consumer ended by an outage"):
                try:
                    _Instance(site, process, opening).lives()
                except Fenced:
                    site.fenced(opening)
                    site.rest(process, 4)
                except Broke:
                    site.world.counts["consumer ended by its caller"] += 1

    return main


class _Instance:
    def __init__(self, site: Site, process: Process, opening: Opening) -> None:
        self._site, self._process, self._say = site, process, process.actor.say
        self._name = opening.name
        say = self._say
        self._rounds, self._most = say.choice((2, 6, 20)), say.choice((1, 2, 3, 500))
        self._commit_share = say.choice((0.0, 0.2, 0.2, 1.0))
        self._interval_ms = say.choice((None, None, 1, 500, 5_000))
        self._in_doubt = False  # a commit may be on its way
        self._consumer = site.open(process).consumer(
            opening.name,
            auto_offset_reset=opening.reset,
            auto_commit_interval_ms=self._interval_ms,
            poll_ms=site.rest_ms,
            stop=Enough(3 * self._rounds),
        )
        site.groups.opened(opening)
        self._caller = Caller(site.groups, opening, self._consumer.positions)
        self._caller.took()
        site.world.counts["consumer opened"] += 1
        self._committed = dict(self._consumer.positions)

    def lives(self) -> None:
        with self._consumer:
            if self._say.random() < 0.25:
                self._iterates()
            else:
                for _ in range(self._rounds):
                    self._polls()
            if self._say.random() < 0.2:
                raise Broke
            self._caller.came_back()
        if self._interval_ms is None:
            self._is_where_commit_left_it()
        else:
            is_committed(self._site, self._name, self._consumer)
        before = self._consumer.positions
        self._consumer.close()
        if self._consumer.positions != before or next(self._consumer, None) is not None:
            raise Violation(f"an instance of {self._name!r} that was closed twice moves on")
        with suppress(InvalidRequest):
            self._consumer.poll()
            raise Violation(f"an instance of {self._name!r} that was closed hands out more")

    def _polls(self) -> None:
        say = self._say
        self._caller.came_back()
        with self._site.outages("poll met an outage"):
            found = self._consumer.poll(say.choice((0, 0, self._site.rest_ms)), self._most)
            if len(found) > self._most:
                raise Violation(f"{self._name!r} asks for {self._most}, and is handed {len(found)}")
            for number, item in found:
                self._caller.handed(number, item)
        if say.random() < 0.5:
            self._site.rest(self._process)
        if say.random() < 0.1:
            raise Broke
        if say.random() < self._commit_share:
            with self._site.outages("commit met an outage") if say.random() < 0.7 else nullcontext():
                self._commits()  # what is unknown the next one settles

    def _commits(self) -> None:
        self._caller.came_back()
        self._in_doubt = True
        self._consumer.commit()
        self._in_doubt = False
        is_committed(self._site, self._name, self._consumer)
        self._committed = dict(self._consumer.positions)

    def _is_where_commit_left_it(self) -> None:
        """Nothing but `commit` commits here."""
        for number, offset in self._committed.items():
            log = self._site.truth.logs[number]
            position = log.positions.get(self._name)
            if self._in_doubt or position is None or log.taken[self._name][-1].author != self._process.actor.author:
                continue
            if position.offset != offset:
                raise Violation(f"{self._name!r} of partition {number} committed {offset}, and is at {position}")
            self._site.world.held("what only commit() commits")

    def _iterates(self) -> None:
        """An iterator that met an outage goes on when it is asked again."""
        items = iter(self._consumer)
        while True:
            with self._site.outages("iteration met an outage"):
                for number, item in items:
                    self._caller.handed(number, item)
                    if self._say.random() < 0.3:
                        self._site.rest(self._process, 0.5)
                    if self._say.random() < 0.05:
                        raise Broke
                    self._caller.came_back()
                return
            if self._say.random() < 0.5:
                return


def is_committed(site: Site, name: str, consumer: TopicConsumer) -> None:
    """What returned without an error has committed, whoever has the name by now."""
    for number, offset in consumer.positions.items():
        position = site.truth.logs[number].positions.get(name)
        if position is None or position.offset < offset:
            raise Violation(f"{name!r} of partition {number} is at {offset}, has ended well, and {position} is there")


def reader(site: Site, name: str) -> Main:
    """Reads one partition by name, which an operator may reset, or delete."""

    def main(process: Process) -> None:
        while True:
            site.rest(process, 2)
            opening = site.opens(process, name, "earliest")
            with site.outages("reader ended by an outage"):
                try:
                    _reads(site, process, opening)
                except Fenced:
                    site.fenced(opening)
                except Broke:
                    site.world.counts["consumer ended by its caller"] += 1
                except NotFound:
                    if not any("delete" in asked for asked in site.groups.asked.values()):
                        raise

    return main


def _reads(site: Site, process: Process, opening: Opening) -> None:
    say = process.actor.say
    topic = site.open(process)
    number = say.randrange(topic.partitions)
    consumer: Consumer = topic.partition(number).consumer(
        opening.name,
        auto_commit_interval_ms=say.choice((1, 1_000)),
        poll_ms=site.rest_ms,
        stop=Enough(say.choice((4, 20))),
    )
    site.groups.opened(opening)
    caller = Caller(site.groups, opening, {number: consumer.position})
    with consumer:
        for item in consumer:
            _deals(site, process, caller, number, item)
        caller.came_back()


def _deals(site: Site, process: Process, caller: Caller, number: int, item: Record | Gap) -> None:
    caller.handed(number, item)
    if process.actor.say.random() < 0.2:
        site.rest(process)
    if process.actor.say.random() < 0.03:
        raise Broke
    caller.came_back()


def follower(site: Site) -> Main:
    """`read(follow=True)` of one partition, from where the log begins."""

    def main(process: Process) -> None:
        say = process.actor.say
        while True:
            site.rest(process, 2)
            opening = site.opens(process, "", "earliest")
            with site.outages("follower ended by an outage"), suppress(Broke):
                topic = site.open(process)
                number = say.randrange(topic.partitions)
                items = topic.partition(number).read(follow=True, poll_ms=site.rest_ms, stop=Enough(30))
                caller = Caller(site.groups, opening, {})
                caller.begins_at_the_start_of(number)
                for _ in range(say.choice((1, 3))):  # asked again after an outage it goes on
                    with site.outages("follower met an outage"):
                        for item in items:
                            _deals(site, process, caller, number, item)
                        break

    return main
