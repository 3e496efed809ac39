"""What histories are about, and who takes part in them how often."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FOCI", "MOST", "SHARES", "Focus", "focus_of"]

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

FOCI = (
    Focus(2),
    # What is pinned is let go, and collected by another, while a collector goes by what it has read.
    Focus(
        2,
        {"collector": 1.0, "pinning reader": 1.0, "reader": 0.1, "holder": 1.0, "compactor": 0.3, "consumer": 0.0},
        always=("collector 0", "collector 1", "pinning reader 0", "holder"),
        name="let go",
        lengths=(450, 900, 1_800, 3_000),
        plain=(1, 2),
        stalls=(0.05, 0.1, 0.2, 0.3),
        graces_ms=(0, 0, 300, 1_000),
        bounds_share=0.1,
    ),
    # Who stands still finds that the boundary has passed what it was about to build upon; collection comes late.
    Focus(
        2,
        {"collector": 0.7, "stream": 0.4, "compactor": 0.5, "reader": 0.5, "pinning reader": 0.3},
        name="standing still",
        always=("collector 0",),
        lengths=(900, 1_800, 3_000),
        plain=(1, 2, 3),
        stalls=(0.05, 0.1, 0.2),
        graces_ms=(0, 0, 300),
        bounds_share=0.0,
    ),
    Focus(1, {"compactor": 0.9, "admin": 0.7, "collector": 0.3}, name="by hand"),
    Focus(
        1,
        {"catalog": 0.6, "retention": 0.4, "collector": 0.7, "reader": 0.0, "pinning reader": 0.0, "consumer": 0.0},
        name="grown",
        lengths=(450, 900, 1_800),
        graces_ms=(0, 0, 300, 1_000),
        changes_share=1.0,
    ),
    Focus(
        1,
        {"retention": 0.4, "compactor": 0.5, "collector": 0.2, "consumer": 0.1},
        name="retention",
        policies=("compact,delete", "delete"),
        records=("-1", "-1", "4", "10"),
        sizes=("-1", "1000", "4000", "12000"),
    ),
    # Applications that number their appends, for fewer places than there are of them.
    Focus(
        1,
        {"stream": 0.9, "import": 0.6, "collector": 0.8, "compactor": 0.4, "reader": 0.0, "consumer": 0.0},
        name="numbered appends",
        always=("collector 0",),
        lengths=(600, 1_500, 3_000),
        plain=(0, 1),
        graces_ms=(0, 0, 300),
        bounds_share=0.0,
    ),
    # Rival imports of one source, some of which pass over its first rows.
    Focus(
        1,
        {"import": 1.0, "stream": 0.1, "compactor": 0.3, "collector": 0.2, "reader": 0.0, "consumer": 0.0},
        name="imports",
        always=("import 0", "import 1"),
        lengths=(330, 450, 600, 900),
        plain=(0, 1),
    ),
    # Sources are damaged, restored, and damaged again.
    Focus(
        2,
        {"operator": 1.0, "compactor": 0.3, "admin": 0.6, "collector": 0.3},
        name="damage",
        always=("operator",),
        lengths=(600, 1_500, 2_400),
        plain=(1, 2, 3),
    ),
    # Jobs of several ranges that are interrupted, and what they have recorded goes bad meanwhile.
    Focus(1, {"rot": 1.0, "compactor": 0.7, "admin": 0.5}, name="rot", always=("rot",), stalls=(0.04, 0.1)),
    # The topic is altered all the time, by two at once.
    Focus(
        3,
        {"retention": 0.7, "compactor": 0.4, "collector": 0.2, "pinning reader": 0.1, "consumer": 0.1},
        name="bounds",
        always=("retention 0",),
        lengths=(600, 900, 1_500, 2_400),
        plain=(1, 2, 3),
        stalls=(0.04, 0.1, 0.2),
        policies=("compact,delete", "compact,delete", "delete", "compact"),
        records=("-1", "4", "10"),
        ages_ms=("-1", "500", "1000", "5000"),
        changes_share=1.0,
    ),
    # The topic is deleted, collected to the last byte, and made again.
    Focus(
        1,
        {"catalog": 1.0, "collector": 0.8, "compactor": 0.3, "reader": 0.0, "pinning reader": 0.1, "consumer": 0.0},
        name="deleted",
        always=("collector 0",),
        lengths=(900, 1_800, 3_000),
        plain=(0, 1, 2),
        graces_ms=(0, 0, 300),
        changes_share=1.0,
    ),
    Focus(
        1,
        {"file operator": 1.0, "collector": 0.6, "catalog": 0.2, "reader": 0.7, "consumer": 0.3},
        name="damaged files",
        changes_share=0.3,
    ),
    # Drivers whose uploads, applications and sweeps meet at every bound.
    Focus(
        1,
        {"collector": 0.4, "compactor": 0.1, "stream": 0.1, "import": 0.0, "admin": 0.0, "operator": 0.0, "rot": 0.0}
        | NO_READERS,
        name="uploads",
        always=("collector 0",),
        lengths=(900, 1_500, 2_400),
        plain=(0, 1),
        graces_ms=(0, 0, 300),
        bounds_share=0.0,
        takes=frozenset({"uploads"}),
        climate=CALM | {"page_keys": (12, 100), "fault_share": (0.0, 0.1, 0.3)},
        tuned={"lithify.manifest.commit.CREATE_ATTEMPTS_MAX": (2, 2, 3)},
    ),
    # Applications, some of which upload, for fewer places than there are of them: each gives way in its turn.
    Focus(
        0.5,
        {"collector": 0.7, "compactor": 0.1, "stream": 0.1, "import": 0.0, "admin": 0.0, "operator": 0.0, "rot": 0.0}
        | NO_READERS,
        name="applications",
        always=("collector 0", "collector 1"),
        lengths=(900, 1_500, 2_400),
        plain=(0, 1),
        graces_ms=(0,),
        bounds_share=0.0,
        takes=frozenset({"crowded uploads"}),
        climate=CALM | {"page_keys": (12, 100), "skew_ms": (0, 0, 2_000)},
        site={"rest_ms": (50, 200)},
    ),
    # What is appended together, by uploads and groups, at a full time index, under bounds that are always reached.
    Focus(
        1,
        {"collector": 0.2, "compactor": 0.4, "stream": 0.1, "reader": 0.2, "consumer": 0.1, "pinning reader": 0.0},
        name="full index",
        lengths=(220, 300, 600),
        plain=(0, 1),
        policies=("compact,delete", "delete"),
        records=("-1", "4", "10"),
        sizes=("-1", "1000", "4000"),
        ages_ms=("-1", "500", "1000", "5000"),
        takes=frozenset({"uploads", "gatherings"}),
        tuned={"lithify.manifest.time_index.TIME_INDEX_MAX": (2, 4)},
    ),
    # Groups of appends where few L0 segments are allowed, and compaction is behind.
    Focus(
        1,
        {"compactor": 0.1, "collector": 0.2, "stream": 0.1, "reader": 0.0, "consumer": 0.0, "pinning reader": 0.0},
        name="groups",
        lengths=(220, 300, 600),
        plain=(0, 1),
        takes=frozenset({"gatherings"}),
        config={"l0.segments.max": ("4", "5", "6")},
    ),
    # Queries that plan, read and renew while what they pin is let go and collected.
    Focus(
        1,
        {"collector": 0.7, "compactor": 0.5, "reader": 0.0, "pinning reader": 0.1, "consumer": 0.0},
        name="queries",
        always=("collector 0", "collector 1"),
        lengths=(600, 900, 1_500),
        plain=(1, 2),
        stalls=(0.0, 0.05, 0.1),
        graces_ms=(0, 0, 300),
        bounds_share=0.0,
        takes=frozenset({"queries"}),
        climate=CALM | {"page_keys": (12, 100), "locked_share": (0.0, 0.3, 0.6)},
    ),
    # Pins of all owners, over each other's segments, at their bounds; collected all the time.
    Focus(
        1,
        {"collector": 0.8, "pinning reader": 0.6, "compactor": 0.5, "reader": 0.0, "consumer": 0.0},
        name="pins",
        always=("collector 0", "collector 1", "holder"),
        lengths=(600, 1_200, 1_800),
        plain=(1, 2),
        graces_ms=(0, 0, 300),
        bounds_share=0.0,
        takes=frozenset({"owners"}),
        climate=CALM | {"page_keys": (12, 100)},
        config={"l0.segments.tier": ("2",), "runs.tier": ("2",)},
    ),
    # A job that no engine takes for long, and may not fail often.
    Focus(
        1,
        {"compactor": 0.5, "collector": 0.2, "reader": 0.0, "consumer": 0.0, "pinning reader": 0.0},
        name="outages",
        lengths=(300, 600, 900),
        plain=(1, 2),
        takes=frozenset({"few attempts"}),
        climate=CALM
        | {
            "fault_share": (0.0, 0.1, 0.3),
            "tick_ms": (40, 200, 500),
            "engine_outages": (((0, 10_000),), ((50, 400),), ((30, 200), (300, 600))),
        },
        site={"rest_ms": (200, 600, 2_000)},
        tuned={"lithify.manifest.commit.CREATE_ATTEMPTS_MAX": (2, 2, 3)},
    ),
    # Whom the store refuses for long: workers, or all that a compactor asks.
    Focus(
        0.5,
        {"compactor": 0.5, "collector": 0.2} | NO_READERS,
        name="denied",
        lengths=(450, 900),
        plain=(1, 2),
        takes=frozenset({"few attempts"}),
        climate=CALM | {"tick_ms": (40, 200, 500)},
        site={"rest_ms": (200, 600, 2_000)},
        denials=tuple(
            ((first, end, whom, writes),)
            for first, end in ((0, 10_000), (50, 600))
            for whom in ("compactor", " task ")
            for writes in (False, True)
        ),
    ),
    # Jobs that people want to end, at every moment of theirs.
    Focus(
        0.5,
        {"compactor": 0.5, "collector": 0.2, "admin": 0.5} | NO_READERS,
        name="wishes",
        lengths=(450, 900),
        plain=(1, 2),
        takes=frozenset({"wishes"}),
        climate=CALM,
    ),
    # Services, a job and its relief, pauses and standbys.
    Focus(0.5, name="services", takes=frozenset({"services"})),
)


def focus_of(seed: int) -> Focus:
    """That of the history of `seed`; nothing of the product is needed to tell."""
    return random.Random(seed).choices(FOCI, [focus.weight for focus in FOCI])[0]
