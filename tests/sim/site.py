"""What every actor of a history knows before it begins: the topic's name, how things are set, and whom to tell."""

from dataclasses import dataclass, field

from lithify.manifest.catalog import live_topic, topic_lineage
from lithify.manifest.commit import Lineage
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from tests.sim.cast import Actor
from tests.sim.oracle import Oracle
from tests.sim.world import World

__all__ = ["TOPIC", "Handle", "Site"]

TOPIC = "t"
SLOWLY = 8
FRESH_SHARE = 0.4  # of the uses of a handle that read the configuration again


@dataclass
class Site:
    world: World
    oracle: Oracle
    grace_ms: int
    config: dict[str, str]
    topic_changes: bool  # it is altered, or deleted and made again
    appends: int  # of each producer
    keys: tuple[str | None, ...]
    sizes: tuple[int, ...]  # of records, one for each append
    tombstone_share: float
    rest_ms: int  # what actors that go round rest between rounds
    skew_ms: int  # how far clocks are from the store's, at most
    damaged_files: dict[str, bytes] = field(default_factory=dict)  # key -> its body as it was
    broken: set[bytes] = field(default_factory=set)  # every body that damage ever left
    presses: bool = False  # who goes round does so slowly while no job runs

    async def open(self) -> "Handle":
        """Raises NotFound, Unavailable."""
        lineage = topic_lineage(TOPIC)
        return Handle(self, lineage, await live_topic(lineage, TOPIC))

    def rest(self, actor: Actor) -> int:
        rest_ms = int(self.rest_ms * 4 ** (actor.say.random() * 2 - 1))
        return rest_ms * SLOWLY if self.presses and not self.oracle.at_work else rest_ms


class Handle:
    """A topic as one process has opened it; partition 0 is where histories happen."""

    def __init__(self, site: Site, lineage: Lineage[TopicFile], topic: TopicFile) -> None:
        self._site = site
        self.lineage = lineage
        self._set(topic)

    def _set(self, topic: TopicFile) -> None:
        self.topic = topic
        self.config: TopicConfig = parse(topic.config)
        self.keys = PartitionKeys(topic.topic, topic.topic_id, 0)

    async def fresh(self, actor: Actor | None = None) -> TopicConfig:
        """The configuration, read again where it may have changed; by `actor` not always, as by a handle that read it a
        while ago. Raises NotFound where the topic is another."""
        if self._site.topic_changes and (actor is None or actor.say.random() < FRESH_SHARE):
            topic = await live_topic(self.lineage, TOPIC)
            if topic.topic_id != self.topic.topic_id:
                return self.config  # as a handle of long ago: its partition says that it is sealed
            if topic is not self.topic:
                self._set(topic)
        return self.config
