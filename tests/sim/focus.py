"""What a history may be about, and who takes part in it how often."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CALM", "MOST", "NO_READERS", "SHARES", "Focus"]

# Who takes part how often, each of so many; `Focus.shares` says whom a history about one thing takes.
MOST = {
    "stream": 3,
    "import": 2,
    "compactor": 3,
    "collector": 3,
    "pinning reader": 2,
    "consumer": 2,
    "admin": 2,
    "retention": 2,
    "catalog": 2,
}
SHARES = {
    "stream": 0.3,
    "import": 0.2,
    "compactor": 0.65,
    "collector": 0.5,
    "reader": 0.2,
    "pinning reader": 0.25,
    "holder": 0.04,
    "consumer": 0.15,
    "admin": 0.2,
    "retention": 0.15,
    "catalog": 0.0,
    "operator": 0.1,
    "file operator": 0.04,
    "rot": 0.1,
}


@dataclass(frozen=True)
class Focus:
    """What a history is about."""

    weight: float
    shares: dict[str, float] = field(default_factory=dict)
    name: str = ""  # by which a sabotage says where it shows
    always: tuple[str, ...] = ()  # who takes part however few they are
    lengths: tuple[int, ...] = (330, 380, 450, 600, 900, 1_500, 2_400)  # steps
    plain: tuple[int, ...] = (0, 1, 2, 3)  # producers without an id
    stalls: tuple[float, ...] = (0.0, 0.01, 0.04, 0.1)
    graces_ms: tuple[int, ...] = (0, 0, 300, 1_000, 5_000)
    policies: tuple[str, ...] = ("compact", "compact", "compact", "compact,delete", "delete")
    records: tuple[str, ...] = ("-1", "-1", "-1", "10")
    sizes: tuple[str, ...] = ("-1", "-1", "-1", "4000")  # retention.bytes
    ages_ms: tuple[str, ...] = ("-1", "-1", "-1", "1000", "5000", "60000")
    changes_share: float = 0.1  # of histories in which the topic is altered, or deleted and made again
    poison_share: float = 0.05  # of histories in which the tasks of one key range fail always
    bounds_share: float = 0.3  # of histories with the product's own bounds
    takes: frozenset[str] = frozenset()  # what else is part of it, which elsewhere is left to dice of its own
    climate: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    config: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    site: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    denials: tuple[tuple[tuple[int, int, str, bool], ...], ...] = ()  # some of these: tests/sim/cast.py
    tuned: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])  # bounds of the product


NO_READERS = {"reader": 0.0, "pinning reader": 0.0, "consumer": 0.0, "holder": 0.0}
# Little goes wrong, so that much comes about.
CALM: dict[str, tuple[Any, ...]] = {
    "fault_share": (0.0, 0.03, 0.1),
    "crash_share": (0.0, 0.002, 0.005),
    "sleep_share": (0.0, 0.0, 0.01),
    "blackouts": ((),),
    "full_spells": ((),),
    "throttled": ((),),
}
