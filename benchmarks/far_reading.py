"""Rows of `far` that read: gets, scans, following, opening."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import lithify
from benchmarks.far_rows import FarRow
from benchmarks.far_site import Place, Site, timed

__all__ = ["cold", "get", "parts", "read", "scan", "tail"]

_STALENESS_MS = 600_000
_TAILED = 20
_PARTITIONS, _KEYS, _APPENDS = 16, 500, 40


def _partitions(site: Site, topic: str) -> dict[str, lithify.Partition]:
    return {place.name: place.open(site.data).topic(topic).partition(0) for place in site.places}


def get(site: Site) -> Iterator[FarRow]:
    """Of keys that occur and were not asked for before; handles are warm."""
    for topic, told in (("clean", "a clean partition"), ("l0", "8 L0 segments")):
        yield _get(site, topic, f"get, {told}")
        if "max_staleness_ms" in inspect.signature(lithify.Partition.get).parameters:
            yield _get(site, topic, f"get, {told}, staleness allowed", max_staleness_ms=_STALENESS_MS)


def parts(site: Site) -> Iterator[FarRow]:
    """Of a small topic of many partitions, whose rows are in memory after the first look, as all indexes are."""
    url, keys = site.fresh_url(), [b"key-%d" % number for number in range(_KEYS)]
    topic = site.near.open(url).create_topic("many", _PARTITIONS, {"cleanup.policy": "compact"}, probe=False)
    topic.append([lithify.Record(key, b"value") for key in keys])
    topics = {place.name: place.open(url).topic("many") for place in site.places}
    admins = {place.name: lithify.Admin(place.open(url)) for place in site.places}
    looks: dict[str, Callable[[Place], Any]] = {
        f"get_many of {_KEYS} keys": lambda place: topics[place.name].get_many(keys),
        "scan": lambda place: topics[place.name].scan().read_all(),
        "explain": lambda place: admins[place.name].explain_topic("many"),
    }
    for what, look in looks.items():
        found = site.alternately(15, lambda place, look=look: timed(lambda: look(place)), warm=2)
        yield FarRow.of("parts", f"{what}, {_PARTITIONS} small partitions", "ms", found)
    consumers = {name: each.consumer(name) for name, each in topics.items()}
    for what, records in (("some in each", [lithify.Record(key, b"value") for key in keys]), ("nothing new", [])):

        def poll(place: Place, records: list[lithify.Record] = records) -> float:
            while consumers[place.name].poll():
                pass
            topic.append(records)
            return timed(consumers[place.name].poll)

        yield FarRow.of("parts", f"poll, {what}, {_PARTITIONS} partitions", "ms", site.alternately(15, poll, warm=2))


def _get(site: Site, topic: str, what: str, **options: Any) -> FarRow:
    partitions, keys = _partitions(site, topic), itertools.cycle(site.keys)

    def run(place: Place) -> float:
        key = next(keys)
        return timed(lambda: partitions[place.name].get(key, **options))

    return FarRow.of("get", what, "ms", site.alternately(31, run, warm=2))


def scan(site: Site) -> Iterator[FarRow]:
    for topic, told in (("l0", "8 L0 segments"), ("clean", "one run")):
        yield _consumed(site, topic, "scan", f"scan, {told}", lambda partition: partition.scan())


def read(site: Site) -> Iterator[FarRow]:
    for topic, told in (("l0", "8 L0 segments"), ("clean", "one run")):
        yield _consumed(site, topic, "read", f"read_batches, {told}", lambda partition: partition.read_batches())


def _consumed(site: Site, topic: str, row: str, what: str, do: Callable[[lithify.Partition], Any]) -> FarRow:
    partitions = _partitions(site, topic)

    def run(place: Place) -> float:
        return timed(lambda: sum(batch.num_rows for batch in do(partitions[place.name])))

    return FarRow.of(row, what, "s", site.alternately(5, run))


def cold(site: Site) -> Iterator[FarRow]:
    """By new clients, without a connection."""
    url = site.data

    def run(place: Place) -> float:
        return timed(lambda: place.open(url).topic("clean").partition(0).describe())

    yield FarRow.of("cold", "open and describe, cold", "ms", site.alternately(15, run))
    many = site.fresh_url()
    topic = site.near.open(many).create_topic("many", _PARTITIONS, {"cleanup.policy": "compact"}, probe=False)
    for _ in range(_APPENDS):
        topic.append([lithify.Record(b"key-%d" % number, b"value") for number in range(_KEYS)])

    def describe(place: Place) -> float:
        return timed(lambda: place.open(many).topic("many").describe())

    told = f"open and describe, cold, {_PARTITIONS} partitions of {_APPENDS} appends"
    yield FarRow.of("cold", told, "ms", site.alternately(9, describe, warm=1))


def tail(site: Site) -> Iterator[FarRow]:
    """One look of a reader that has followed to the end, and meanwhile there were appends."""
    url = site.fresh_url()
    writer = site.near.open(url).create_topic("tailed", 1, {"cleanup.policy": "compact"}, probe=False).partition(0)
    _append_small(writer)
    followers = {place.name: place.open(url).topic("tailed").partition(0).follower() for place in site.places}
    for follower in followers.values():
        _take_all(follower)

    def run(place: Place) -> float:
        if place is site.near:
            _append_small(writer)
        return timed(lambda: _take_all(followers[place.name]))

    yield FarRow.of("tail", f"{_TAILED} new small segments, followed", "ms", site.alternately(7, run))


def _append_small(partition: lithify.Partition) -> None:
    for number in range(_TAILED):
        partition.append([lithify.Record(b"key-%d" % number, b"value")] * 5)


def _take_all(follower: Any) -> None:
    while follower.take() is not None:
        pass
