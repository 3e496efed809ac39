"""Histories in which rare circumstances meet: at bounds that few reach, in outages that last, where all but a few are
away. Each is for sabotages that ordinary histories would notice once in a thousand."""

from tests.sim.focus import CALM, NO_READERS, Focus

__all__ = ["HOMES", "RARE_FOCI"]

RARE_FOCI = (
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
        tuned={"lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX": (2, 2, 3)},
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
        config={"l0.segments.max": ("6", "7", "8")},
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
            "crash_share": (0.0, 0.005, 0.02),
            "engine_outages": ((), ((0, 10_000),), ((50, 400),), ((30, 200), (300, 600))),
        },
        config={"compaction.attempts.max": ("2", "4")},
        site={"rest_ms": (200, 600, 2_000)},
        tuned={"lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX": (2, 2, 3)},
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
    # What an append has made is merged, and its number dead, before it hears of it.
    Focus(
        0.5,
        {"collector": 0.3, "compactor": 0.7, "admin": 0.3, "stream": 0.1, "import": 0.0} | NO_READERS,
        name="overtaken",
        always=("collector 0",),
        lengths=(900, 1_500, 2_400),
        plain=(2, 3),
        stalls=(0.02, 0.05, 0.1),
        graces_ms=(1_000, 3_000),  # for so long what was merged is listed, once the number is dead
        policies=("compact",),
        bounds_share=0.0,
        climate=CALM | {"fault_share": (0.1, 0.2, 0.3), "page_keys": (12, 100), "tick_ms": (5, 40)},
        config={"l0.segments.tier": ("2",), "min.compaction.lag.ms": ("0",)},
        site={"appends": (16, 30), "rest_ms": (50, 200)},
    ),
    # Some tasks fail always, or often; and people ask for the same again.
    Focus(
        0.5,
        {"compactor": 0.1, "admin": 1.0, "collector": 0.2, "stream": 0.1, "import": 0.0} | NO_READERS,
        name="failing",
        always=("admin 0", "admin 1"),
        lengths=(600, 900, 1_500),
        plain=(1,),
        policies=("compact",),
        poison_share=0.7,
        climate=CALM | {"fault_share": (0.03, 0.3), "tick_ms": (40, 200), "page_keys": (12, 100)},
        config={"compaction.attempts.max": ("2",), "min.compaction.lag.ms": ("0",)},
        site={"appends": (3, 5), "rest_ms": (200, 600)},
    ),
    # A topic that is deleted and made again while its jobs run; there is always something to merge.
    Focus(
        0.5,
        {"catalog": 1.0, "compactor": 0.3, "collector": 0.2, "stream": 0.0, "import": 0.0} | NO_READERS,
        name="deleted under a job",
        lengths=(600, 1_200, 1_800),
        plain=(2, 3),
        graces_ms=(0, 300),
        changes_share=1.0,
        climate=CALM | {"page_keys": (12, 100)},
        config={"l0.segments.tier": ("2",), "min.compaction.lag.ms": ("0",), "min.cleanable.dirty.ratio": ("0",)},
        site={"appends": (30, 60), "rest_ms": (50, 200)},
    ),
    # Services, a job and its relief, pauses and standbys.
    Focus(0.5, name="services", takes=frozenset({"services"})),
)

# Segments that move to other homes and back, homes that change, are away, and are swept.
HOMES = Focus(
    1,
    {
        "compactor": 0.4,
        "collector": 0.5,
        "admin": 0.1,
        "retention": 0.1,
        "catalog": 0.04,
        "pinning reader": 0.2,
        "reader": 0.1,
        "consumer": 0.0,
        "stream": 0.1,
        "import": 0.0,
        "operator": 0.1,
        "rot": 0.1,
        "file operator": 0.0,
    },
    name="homes",
    always=("collector 0",),
    lengths=(450, 900, 1_500, 2_400),
    plain=(1, 2),
    graces_ms=(0, 0, 300, 1_000),
    policies=("compact", "compact,delete", "delete"),
    ages_ms=("-1", "-1", "60000"),
    sizes=("-1",),
    changes_share=1.0,
    poison_share=0.0,
    takes=frozenset({"homes"}),
    climate=CALM | {"page_keys": (2, 12, 100), "fault_share": (0.0, 0.05, 0.2), "crash_share": (0.0, 0.005, 0.02)},
    config={
        "l0.segments.tier": ("2", "3"),
        "runs.tier": ("2", "4"),
        "segment.bytes": ("1600", "1600", "1073741824"),
        "compaction.output.bytes": ("1024",),
        "min.compaction.lag.ms": ("0",),
    },
    site={"appends": (8, 16, 30), "rest_ms": (50, 200, 600, 2_000), "sizes": ((40, 2_000), (20, 800, 6_000))},
)
