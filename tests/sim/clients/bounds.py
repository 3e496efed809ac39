"""Bounds that are large in the product are small in most histories, so that stretches, attempts and races run out."""

import random
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

__all__ = ["tuned"]

# What is rare with the figures of the product, the first ones, is frequent with the others.
TUNED = {
    "lithify.log.follow.STRETCH_RECORDS": (500, 1, 3),
    "lithify.log.follow.STRETCH_BYTES": (1 << 20, 1 << 20, 40),
    "lithify.log.positions.RACES_MAX": (8, 1, 2),
    "lithify.log.producer.SENDERS_MAX": (8, 1, 2),
    "lithify.log.append.UPLOADS_MAX": (4, 1),
    "lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX": (10, 1, 2),
    "lithify.manifest.time_index.TIME_INDEX_MAX": (128, 4),
    "lithify.gc.reachable.BOUNDARY_STEP_MIN": (256, 8, 2),
}
LARGE_SHARE = 0.25  # of histories


@contextmanager
def tuned(dice: random.Random) -> Generator[None]:
    large = dice.random() < LARGE_SHARE
    with ExitStack() as stack:
        for name, values in TUNED.items():
            stack.enter_context(patch(name, values[0] if large else dice.choice(values[1:])))
        yield
