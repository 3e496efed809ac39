"""What everybody of one history shares."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.months.bucket import Bucket
from tests.sim.months.clock import Clock
from tests.sim.months.served import Served
from tests.sim.months.topics import TOPICS, Shape

__all__ = ["Site", "WarehouseFace"]


@dataclass
class WarehouseFace:
    """What a compactor and a collector need of a warehouse."""

    driver: Any


@dataclass
class Site:
    seed: str
    clock: Clock
    bucket: Bucket
    shapes: tuple[Shape, ...] = TOPICS
    load_is_over: bool = False
    bytes_appended: int = 0
    bytes_compacted: int = 0
    served: Served = field(init=False)  # by compactors
    collected: Served = field(init=False)  # by collectors
    daemons_begun: int = 0
    refused: Callable[[str, int], None] = lambda *_: None  # an append, at the limit of L0 segments

    def __post_init__(self) -> None:
        self.served, self.collected = Served(self.clock.now_ms), Served(self.clock.now_ms)
