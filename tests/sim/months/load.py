"""Who writes: producers that append to each partition as its topic's shape has it, by the product's own protocol."""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lithify.log.append import append
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.config import parse
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import drive
from lithify.store.errors import CommitUnknown, NotFound, Unavailable
from tests.sim.clients.fibres import ask
from tests.sim.months.clock import HOUR_MS, START_MS, Spend
from tests.sim.months.contents import appended
from tests.sim.months.topics import Shape

if TYPE_CHECKING:
    from tests.sim.months.site import Site

__all__ = ["outages", "producer"]

AT_THE_LIMIT = "L0 segments, its limit"  # so the refusal says


@contextmanager
def outages(site: "Site", what: str, refused: Callable[[], None] = lambda: None) -> Generator[None]:
    """`refused`: told where it was the limit of L0 segments, and not the store."""
    try:
        yield
    except (Unavailable, CommitUnknown) as error:
        if AT_THE_LIMIT in str(error):
            site.clock.counts["append refused at the limit"] += 1
            refused()
        else:
            site.clock.counts[f"{what}: {type(error).__name__}"] += 1


def producer(site: "Site", shape: Shape, number: int) -> None:
    """Writes to partition `number` for as long as there is one."""
    site.clock.process(f"producer {shape.name}/{number}", "producers", lambda process: _writes(site, shape, number))


def _writes(site: "Site", shape: Shape, number: int) -> None:
    clock = site.clock
    seed = f"{site.seed}/{shape.name}/{number}/{clock.now_ms}"
    dice, draws = random.Random(seed), np.random.default_rng(random.Random(seed).getrandbits(32))
    lineage, files = topic_lineage(shape.name), None
    while not site.load_is_over:
        ask(Spend(max(int(shape.rest(clock.now_ms, dice)), 1)))
        if site.load_is_over:
            return
        try:
            with outages(site, "append", lambda: site.refused(shape.name, number)):
                topic = drive(live_topic(lineage, shape.name), ask)
                if files is None or files.keys.topic_id != topic.topic_id:
                    files = PartitionFiles(partition_keys(topic)[number])
                config = parse(topic.config)
                first = clock.now_ms - START_MS < HOUR_MS and shape.first_rows
                rows = int((first or shape.rows) * (0.5 + dice.random()))
                keys = (shape.keys * draws.random(rows) ** shape.skew).astype(np.int64)
                body, ref = appended(
                    keys, draws.random(rows) < shape.deletes, clock.now_ms, shape.row_bytes, config.order
                )
                limit = config.l0_segments_max
                drive(append(files, body, ref, l0_segments_max=limit), ask)  # type: ignore[arg-type]
                clock.counts["append"] += 1
                site.bytes_appended += ref.bytes
        except NotFound:
            return
