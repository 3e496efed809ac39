"""Rows of `far` about a partition with 40,000 segments in runs."""

from collections.abc import Iterator

import lithify
from benchmarks.far_rows import FarRow
from benchmarks.far_site import Place, Site, timed
from benchmarks.wide import SEGMENTS, wide_files
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import FORMAT, Manifest

__all__ = ["wide"]

_SHAPES = {"40,000 segments in one run": SEGMENTS, "40,000 segments in 40,000 runs": 1}


def wide(site: Site) -> Iterator[FarRow]:
    for told, segments_of_a_run in _SHAPES.items():
        url = site.fresh_url()
        _make(site, url, segments_of_a_run)
        yield _appended(site, told, segments_of_a_run)
        yield _opened(site, told, url)


def _appended(site: Site, told: str, segments_of_a_run: int) -> FarRow:
    """Warm: the handle has appended before, and nobody else does there."""
    handles: dict[str, lithify.Partition] = {}
    for place in site.places:
        url = site.fresh_url()
        _make(site, url, segments_of_a_run)
        handles[place.name] = _partition(place, url)
    records = [lithify.Record(b"key-%05d" % number, b"v" * 100) for number in range(100)]
    found = site.alternately(15, lambda place: timed(lambda: handles[place.name].append(records)), warm=2)
    return FarRow.of("wide", f"append of 100 records, {told}", "ms", found)


def _opened(site: Site, told: str, url: str) -> FarRow:
    """By new clients, without a connection."""
    found = site.alternately(7, lambda place: timed(lambda: _partition(place, url).describe()))
    return FarRow.of("wide", f"open and describe, cold, {told}", "ms", found)


def _partition(place: Place, url: str) -> lithify.Partition:
    return place.open(url).topic("wide").partition(0)


def _make(site: Site, url: str, segments_of_a_run: int) -> None:
    warehouse = site.near.open(url)
    topic_id = warehouse.create_topic("wide", 1, {"cleanup.policy": "compact"}, probe=False).describe().topic_id
    store = warehouse.driver.store
    head = Manifest(format=FORMAT, topic="wide", topic_id=topic_id, partition=0, id=1, nonce="0" * 16)
    assert store.head(PartitionKeys("wide", topic_id, 0).manifest.key(1)) is not None
    for key, body in wide_files(head, segments_of_a_run).items():
        store.put(key, body)
