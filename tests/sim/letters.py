"""The keys of a history: five letters, or five keys that are hard to tell apart by their bounds."""

import random

from lithify.manifest.model import KEY_BOUND_BYTES

__all__ = ["five_keys"]

HOSTILE_SHARE = 0.25  # of histories


def five_keys(dice: random.Random) -> tuple[str, ...]:
    """In order; a letter is a byte."""
    return _alike(dice) if dice.random() < HOSTILE_SHARE else ("a", "b", "c", "d", "e")


def _alike(dice: random.Random) -> tuple[str, ...]:
    """Alike up to where a manifest cuts its bounds, or what such a bound is rounded to."""
    run = dice.choice((0, 1, 1, 31, KEY_BOUND_BYTES))  # bytes that cannot be rounded up
    stem = "a" * (KEY_BOUND_BYTES - run)
    shared = stem + "\xff" * run
    known = [shared + end for end in ("", "\0", "a", "b", "\xff", "\xff" * 40)] + [shared[:-1], "", "\xff"]
    known += [stem[:-1] + "b", stem[:-1] + "b" + "\0" * run] if stem else []
    return tuple(sorted(dice.sample(sorted({*known}), 5)))
