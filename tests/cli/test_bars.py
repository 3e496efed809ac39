"""Progress bars are drawn from events, and from nothing else."""

import random
from typing import Any

import lithify
from lithify.cli.bars import Bars
from lithify.store.driver import new_id


class Drawn:
    """Keeps what it was told to draw."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, list[int], int]] = []  # what it is called, how far it was, of how much

    def add_task(self, text: str, total: int) -> int:
        self.bars.append((text, [], total))
        return len(self.bars) - 1

    def update(self, bar: int, completed: int, **_: Any) -> None:
        self.bars[bar][1].append(completed)


def test_each_job_has_a_bar_that_fills() -> None:
    warehouse = lithify.open(f"memory://{new_id()}")
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "compaction.output.bytes": "16384"}
    part = warehouse.create_topic("users", 1, config).partition(0)
    dice = random.Random(1)
    for start in range(0, 2_000, 500):
        part.append([lithify.Record(key=b"%04d" % n, value=dice.randbytes(64)) for n in range(start, start + 500)])
    drawn = Drawn()
    report = lithify.Compactor(warehouse, "local", events=Bars(drawn)).run_once()
    (job,) = report.jobs
    ((text, steps, ranges),) = drawn.bars
    assert text == f"{job.kind} {job.id}"
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert steps[-1] == ranges > 1
