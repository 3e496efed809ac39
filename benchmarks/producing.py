"""How many records a producer takes: handed over one by one, by one thread, to a topic in a folder; until all are
durable."""

import shutil
import time
from pathlib import Path

import msgspec

import lithify

__all__ = ["Produced", "producing"]

_RECORDS = 400_000
_VALUE = b"v" * 40
_RUNS = 3


class Produced(msgspec.Struct, frozen=True):
    partitions: int
    idempotent: bool
    per_s: float  # the best of some runs
    per_cpu_s: float  # of the whole process

    @property
    def what(self) -> str:
        producer = "idempotent producer" if self.idempotent else "producer"
        return f"{producer}, {self.partitions} {'partition' if self.partitions == 1 else 'partitions'}"


def producing(folder: Path, *, quick: bool = False) -> list[Produced]:
    own = folder / "producing"
    shutil.rmtree(own, ignore_errors=True)
    keys = [b"key-%09d" % (number * 7_919 % 1_000_003) for number in range(2_000 if quick else _RECORDS)]
    warehouse = lithify.open(str(own))
    found: list[Produced] = []
    for partitions, producer_id in ((1, None), (1, "bench"), (4, None)):
        name = f"of-{partitions}-{producer_id or 'nobody'}"
        topic = warehouse.create_topic(name, partitions, {"cleanup.policy": "compact"}, probe=False)
        runs = [_run(topic, producer_id, keys) for _ in range(1 if quick else _RUNS)]
        best = max(runs)
        found.append(Produced(partitions, producer_id is not None, *best))
    shutil.rmtree(own)
    return found


def _run(topic: lithify.Topic, producer_id: str | None, keys: list[bytes]) -> tuple[float, float]:
    began, cpu_began = time.perf_counter(), time.process_time()
    with topic.producer(producer_id) as producer:
        append = producer.append
        for key in keys:
            append(key, _VALUE)
    return len(keys) / (time.perf_counter() - began), len(keys) / (time.process_time() - cpu_began)
