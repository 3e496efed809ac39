"""Everything comes back: of a partition at rest, what lies in other homes is recalled (docs/rfcs/0031).

While others are at work a recall hardly ever finds something to move: merges write to the warehouse, and come first.
"""

import random
from collections.abc import Awaitable, Callable

from lithify.compactor.step import Step
from lithify.manifest.catalog import alter_topic, live_topic, topic_lineage
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.homes import HERE
from lithify.manifest.partition import PartitionFiles
from tests.sim.cast import Violation
from tests.sim.homes import NOWHERE, recall
from tests.sim.site import TOPIC, Site

__all__ = ["all_comes_back"]

STAYS: dict[str, str | None] = {"local.retention.ms": "-2", "local.retention.bytes": "-2"}
GIVEN_UP_SHARE = 0.5


async def all_comes_back(
    site: Site,
    files: PartitionFiles,
    dice: random.Random,
    goes_by: Callable[[TopicConfig], None],
    until_idle: Callable[[], Awaitable[Step]],
) -> None:
    """`goes_by`: tells the compactor its configuration. Requires: a live topic at rest; `files` of its partition 0."""
    if all(segment.home == HERE for segment in (await files.head()).segments()):
        return
    lineage = topic_lineage(TOPIC)
    changes = STAYS | (NOWHERE if dice.random() < GIVEN_UP_SHARE else {})
    altered = await alter_topic(lineage, await live_topic(lineage, TOPIC), changes, None)
    goes_by(parse(altered.config))
    await recall(site, files, await site.open())
    await until_idle()
    left = [segment for segment in (await files.head()).segments() if segment.home != HERE]
    if left:
        raise Violation(f"{left[0].id} was recalled, and is still in {left[0].home} (RFC 0031)")
    site.world.counts["brought back at rest"] += 1
