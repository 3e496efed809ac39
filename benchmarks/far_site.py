"""A Ceph RGW of this machine, reached directly and over a slow link, and what is in it for all rows of `far`."""

import random
import time
import urllib.parse
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

import lithify
from benchmarks.generate import Shape, tables
from benchmarks.slow_link import slow_link
from tests.debian import program
from tests.endpoint import Endpoint
from tests.rgw import running_rgw

__all__ = ["CONFIG", "SHAPE", "Place", "Site", "far_site", "timed", "what_is_missing"]

SHAPE = Shape(segments=8, rows=200_000, keys=800_000, value_bytes=40)
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
_PROGRAMS = ("radosgw", "ceph-mon", "ceph-osd", "radosgw-admin", "ceph")


class Place(NamedTuple):
    name: str  # near, far
    endpoint: Endpoint

    def open(self, url: str) -> lithify.Warehouse:
        """With clients of its own."""
        return lithify.open(url, storage_options=self.endpoint.options)


class Site:
    def __init__(self, near: Endpoint, far: Endpoint, quick: bool) -> None:
        self.near, self.far = Place("near", near), Place("far", far)
        self.quick = quick
        self.not_run: list[str] = []  # of what could not be measured
        self._bucket = near.create_bucket("far")
        self._names = 0

    @property
    def places(self) -> tuple[Place, Place]:
        return self.near, self.far

    @cached_property
    def shape(self) -> Shape:
        return msgspec.structs.replace(SHAPE, rows=2_000, keys=8_000) if self.quick else SHAPE

    def times(self, number: int) -> int:
        return min(number, 2) if self.quick else number

    def url(self, prefix: str) -> str:
        return f"s3://{self._bucket}/{prefix}"

    def fresh_url(self) -> str:
        self._names += 1
        return self.url(f"own-{self._names}")

    @cached_property
    def data(self) -> str:
        """URL of a warehouse with topics `l0` (8 L0 segments) and `clean` (the same data in one run)."""
        warehouse = self.near.open(self.url("data"))
        for name in ("clean", "l0"):
            topic = warehouse.create_topic(name, 1, CONFIG, probe=False)
            for table in self.tables:
                topic.partition(0).append(table)
            if name == "clean":
                compactor = lithify.Compactor(warehouse, engine="local")
                compactor.run_once()
                compactor.close()
        return self.url("data")

    @cached_property
    def tables(self) -> Sequence[pa.Table]:
        return list(tables(self.shape))

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """Some that occur, of all segments."""
        keys = [key for table in self.tables for key in table["key"].to_pylist()[::97]]
        random.Random(0).shuffle(keys)
        return keys

    def objects(self, prefix: str) -> dict[str, int]:
        """Keys and bytes, below the bucket."""
        pages = self.near.endpoint.client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}

    def object_url(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.near.endpoint.client.delete_object(Bucket=self._bucket, Key=key)

    def alternately(self, times: int, run: Callable[[Place], float], warm: int = 1) -> tuple[list[float], list[float]]:
        """What `run` answers of both places, in turn: noise of the machine hits both alike. The first are not told."""
        found: dict[str, list[float]] = {"near": [], "far": []}
        for number in range(-warm, self.times(times)):
            for place in self.places:
                answer = run(place)
                if number >= 0:
                    found[place.name].append(answer)
        return found["near"], found["far"]


def timed(do: Callable[[], Any]) -> float:
    """Seconds."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def what_is_missing() -> str | None:
    """Why there can be no RGW here."""
    for name in _PROGRAMS:
        try:
            program(name)
        except AssertionError as error:
            return str(error)
    return None


@contextmanager
def far_site(folder: Path, quick: bool = False) -> Generator[Site]:
    with running_rgw(folder) as rgw:
        near = rgw.user("bench")
        port = urllib.parse.urlsplit(rgw.endpoint_url).port
        assert port is not None
        with slow_link(port) as link:
            yield Site(near, Endpoint(f"http://127.0.0.1:{link}", "bench-key", "bench-secret"), quick)
