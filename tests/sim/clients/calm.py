"""The scenes that are played when a history is over: what takes time, or needs a store that answers nobody. Most
histories end with one of them, some with none, a few with all of them, one after the other."""

import random
from collections.abc import Callable

from tests.sim.clients import calm_getters, calm_readers, calm_writers
from tests.sim.clients.site import Site
from tests.sim.clients.truth import OPERATOR
from tests.sim.clients.world import Process

__all__ = ["SCENES", "drawn"]

Scene = tuple[tuple[str, Callable[[Site], Callable[[Process], None]]], ...]
"""One after the other, by the names of their processes."""

SCENES: tuple[Scene, ...] = (
    (("who lingers", calm_writers.lingers),),
    (("who sends in an outage", calm_writers.is_told_of_an_outage),),
    (("who sends in bad weather", calm_writers.sends_in_bad_weather),),
    (("who is replaced", calm_readers.is_replaced),),
    (("who sleeps through a collection", calm_readers.sleeps_through_a_collection),),
    (("who is replaced while the topic grows", calm_readers.is_replaced_while_the_topic_grows),),
    (("who misses a deletion", calm_readers.misses_a_deletion), (OPERATOR, calm_readers.resets_who_missed_it)),
    (("who commits in bad weather", calm_readers.commits_in_bad_weather),),
    (("who asks late", calm_writers.asks_late),),
    (("who fails to load", calm_readers.fails_to_load),),
    (("who fails over a record", calm_readers.fails_over_a_record),),
    (("who gets again later", calm_getters.gets_again_later),),
    (("who sleeps before a reply", calm_getters.sleeps_before_the_reply),),
    (("who gets what was collected", calm_getters.gets_what_was_collected),),
)
ALL_SHARE, NONE_SHARE = 0.03, 0.45  # of histories


def drawn(dice: random.Random) -> tuple[Scene, ...]:
    """The scenes that a history ends with."""
    kind = dice.random()
    if kind < ALL_SHARE:
        return SCENES
    return () if kind < ALL_SHARE + NONE_SHARE else (dice.choice(SCENES),)
