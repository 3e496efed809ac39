"""What histories are about."""

import random

from tests.sim.focus import CALM, NO_READERS, Focus
from tests.sim.rare_foci import HOMES, RARE_FOCI

__all__ = ["FOCI", "focus_of"]

HOMES_SHARE = 1 / 28

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
        {"import": 1.0, "stream": 0.1, "compactor": 0.1, "collector": 0.1, "admin": 0.0} | NO_READERS,
        name="imports",
        always=("import 0", "import 1"),
        lengths=(450, 900, 1_800),
        plain=(0, 1),
        climate=CALM,
        site={"appends": (4, 8)},
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
        {"file operator": 1.0, "collector": 0.6, "catalog": 0.1, "reader": 1.0, "consumer": 0.5},
        name="damaged files",
        changes_share=0.3,
    ),
    *RARE_FOCI,
)


def focus_of(seed: int) -> Focus:
    """That of the history of `seed`; nothing of the product is needed to tell."""
    # Dice of their own, so that other histories stay as they were; with this number none was on record.
    if random.Random(f"{seed}/homes 62").random() < HOMES_SHARE:
        return HOMES
    return random.Random(seed).choices(FOCI, [focus.weight for focus in FOCI])[0]
