"""Does anything in a warehouse need a person?"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from lithify.admin.append_times import append_time
from lithify.admin.home_watch import HOMES_MAX, HomeWatch
from lithify.admin.overdue import overdue
from lithify.gc.temporaries import remove_stale_temporaries
from lithify.log.consumer_info import consumer_infos
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import appends_slowed, assess
from lithify.manifest.homes import told
from lithify.manifest.keys import check_topic_name
from lithify.manifest.known import KnownPartitions
from lithify.manifest.latest_failure import failing_text
from lithify.manifest.model import UPLOADS_MAX, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at, stalled_by_future
from lithify.manifest.uploads import still_stand
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.manifest.words import counted, quarantine_text, room_text, span_text, tried_again_text
from lithify.store.apart import Ending, Fault, attempt
from lithify.store.errors import ErrorKind, Unavailable
from lithify.store.home_names import physical
from lithify.store.homes import Homes
from lithify.store.port import HERE, Now

__all__ = ["Check", "Health", "Verdict", "ending_of_checks", "health", "stale_temporaries"]

_TOPICS_SHOWN = 4

Verdict = Literal["ok", "warning", "failure"]


class Check(msgspec.Struct, frozen=True):
    """A failure needs a person; a warning may."""

    name: str
    verdict: Verdict
    detail: str
    fault: Fault | None = None  # if it is one that this check met


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Of the topics of a warehouse."""

    checks: tuple[Check, ...]

    @property
    def ending(self) -> Ending:
        return ending_of_checks(self.checks)


def ending_of_checks(checks: Iterable[Check]) -> Ending:
    """If all that failed are stores that do not answer, nothing is known to be damaged."""
    failures = [check.fault for check in checks if check.verdict == "failure"]
    if failures and all(fault is not None and fault.kind is ErrorKind.UNAVAILABLE for fault in failures):
        return Ending.UNREACHABLE
    return Ending.DAMAGED if failures else Ending.DONE


def stale_temporaries(homes: Homes) -> Check:
    """Removes what killed processes left half written a day ago, and tells how much that was."""
    found = remove_stale_temporaries(homes)
    if found.fault:
        return Check("stale temporaries", "warning", found.fault.message, found.fault)
    return Check("stale temporaries", "ok", f"{found.removed} removed, left by killed processes")


def health(known: KnownPartitions, topic: str | None) -> Health:
    """Raises InvalidRequest."""
    if topic is not None:
        check_topic_name(topic)
    return Health(checks=tuple(_checks(known, topic)))


def _checks(known: KnownPartitions, topic: str | None) -> Iterator[Check]:
    all_found = attempt(lambda: list(partitions_found(known, topic, anew=True)))
    if isinstance(all_found, Fault):
        yield Check("topics", "failure", all_found.text, all_found)
        return
    readable = 0
    homes = _Homes()
    partitions = [found for found in all_found if isinstance(found, FoundPartition)]
    looks = iter(known.driver.all_of(partial(_look, known), partitions))
    for found in all_found:
        if isinstance(found, UnreadTopic):
            yield Check(f"topic {found.topic}", "failure", found.fault.text, found.fault)
            continue
        look = next(looks)
        homes.add(found, look.cold_home, look.homes)
        if isinstance(look.checks, Fault):
            yield Check(f"{found.keys.topic}/{found.keys.partition}", "failure", look.checks.text, look.checks)
            continue
        readable += 1
        yield from look.checks
    yield from homes.checks(known)
    yield Check("topics", "ok", f"{counted(readable, 'partition')} {'is' if readable == 1 else 'are'} readable")


class _Homes:
    """The homes besides the warehouse that configurations and manifests name."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}  # by home, the key of a file that says whose it is
        self._topics: dict[str, set[str]] = {}  # by home, those that have something there, or will
        self._used: dict[str, dict[str, None]] = {}  # by home, the files that say whose the topics' segments are

    def add(self, found: FoundPartition, configured: str, used: Iterable[str]) -> None:
        for home in filter(None, (configured, *used)):
            self._owners.setdefault(home, found.keys.owner)
            self._topics.setdefault(home, set()).add(found.keys.topic)
        for home in used:
            if home not in self._used:
                self._owners[home] = found.keys.owner
            self._used.setdefault(home, {})[found.keys.owner] = None

    def checks(self, known: KnownPartitions) -> Iterator[Check]:
        """At most `HOMES_MAX` are asked at the same time."""
        names = sorted(home for home in self._owners if physical(home) != HERE)
        watch, unused = HomeWatch(known.driver.homes), self._owners.keys() - self._used
        for first in range(0, len(names), HOMES_MAX):
            part = names[first : first + HOMES_MAX]
            for state in watch.look({home: self._owners[home] for home in part}, unused):
                yield self._check(known, state.home, state.away)

    def _check(self, known: KnownPartitions, home: str, away: str) -> Check:
        name, topics = f"home {told(home)}", sorted(self._topics[home])
        shown = ", ".join(topics[:_TOPICS_SHOWN]) + (", …" if len(topics) > _TOPICS_SHOWN else "")
        refused = "" if away else self._refused(known.driver.homes, home)
        if refused:
            return Check(name, "warning", f"answers, but nothing moves or is deleted there: {refused}")
        if not away:
            return Check(name, "ok", f"answers; it is a home of {shown}")
        follows = "reads and compactions that need its segments fail, and nothing" if home in self._used else "nothing"
        end = "" if away.endswith("?") else "."
        text = f"is away: {away}{end} Until it answers, {follows} moves there. It is a home of {shown}"
        return Check(name, "failure", text, Fault.of(Unavailable(f"home {told(home)} {text}")))

    def _refused(self, homes: Homes, home: str) -> str:
        """Why this warehouse may not delete what a topic has there: it is another's, or this one is a copy."""
        for key in self._used.get(home, ()):
            found = attempt(lambda key=key: homes.own(home, key, claims=False, renews=False))
            if isinstance(found, Fault) and found.kind is ErrorKind.INVALID_REQUEST:
                return found.text
        return ""


class _Look(NamedTuple):
    """At a partition. `checks`: those of what its head and its job files say, or why these cannot be read."""

    cold_home: str
    homes: tuple[str, ...]
    checks: list[Check] | Fault


def _look(known: KnownPartitions, found: FoundPartition) -> _Look:
    config = attempt(lambda: parse(found.topic.config))
    if isinstance(config, Fault):
        return _Look("", (), config)
    look = attempt(lambda: _readable(known, found, config))
    return _Look(config.cold_home, (), look) if isinstance(look, Fault) else look


def _readable(known: KnownPartitions, found: FoundPartition, config: TopicConfig) -> _Look:
    """If its head and its job files can be read."""

    async def read(files: PartitionFiles) -> tuple[Reading, int]:
        state, head = await files.compactor_state(), await files.head()
        reading = Reading.of(head, state, config, await Now())
        added = await append_time(files, found.topic, reading, assess(reading))
        return reading, added.at_ms if added else 0

    reading, appended_ms = known.run(found.keys, read, anew=True)
    checks = [*_room(reading.manifest, config), *_checked(reading, appended_ms)]
    return _Look(config.cold_home, reading.manifest.homes, checks)


def _room(head: Manifest, config: TopicConfig) -> Iterator[Check]:
    """Whether appends find room: the number of L0 segments is limited, and only compaction lowers it."""
    if head.sealed or not appends_slowed(head, config):
        return
    count, most = len(head.l0), config.l0_segments_max
    see = f"see 'lithify compaction explain {head.topic} --partition {head.partition}'"
    verdict: Verdict = "warning" if count < most else "failure"
    yield Check(f"{head.topic}/{head.partition}", verdict, f"{room_text(count, most)} (l0.segments.max); {see}")


def _checked(reading: Reading, appended_ms: int) -> Iterator[Check]:
    head, now_ms = reading.manifest, reading.now_ms
    where = f"{head.topic}/{head.partition}"
    floor = floor_at(head, now_ms)
    for consumer in consumer_infos(head, floor):
        if consumer.alarm is not None:
            yield Check(where, "warning", f"consumer {consumer.name}: {consumer.alarm}")
    stalled = stalled_by_future(head, floor, now_ms)
    if stalled is not None:
        yield Check(where, "warning", stalled)
    standing = [upload for upload in still_stand(head.uploads, now_ms) if upload.appended is None]
    if len(standing) == UPLOADS_MAX:
        first_ms = min(upload.expires_at_ms for upload in standing) - now_ms
        text = f"{UPLOADS_MAX} uploads were not appended, its limit, so no other can begin until the first expires in"
        yield Check(where, "warning", f"{text} {span_text(first_ms)}; give uploads a shorter ttl")
    waits = overdue(reading, appended_ms=appended_ms)
    if waits is not None:
        yield Check(where, "warning", f"{waits}: is a compactor running?")
    failing = failing_text(reading.state)
    if failing is not None:
        yield Check(where, "warning", tried_again_text(head.topic, head.partition, failing))
    if head.quarantine is not None:
        stopped = head.quarantine
        text = quarantine_text(head.topic, head.partition, stopped.reason, stopped.segment, head.segments())
        yield Check(where, "failure", text)
