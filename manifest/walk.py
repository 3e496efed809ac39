"""One walk over the topics of a warehouse, for callers that one unreadable topic must not stop."""

from collections.abc import Iterator

from lithify.manifest.catalog import live_topic, topic_lineage, topic_names
from lithify.manifest.model import TopicFile
from lithify.store.apart import Failure, attempt
from lithify.store.driver import Driver
from lithify.store.errors import NotFound

__all__ = ["topics_found"]


def topics_found(driver: Driver) -> Iterator[tuple[str, TopicFile | Failure]]:
    """Every live topic with its name, in name order, or the failure to read it (then it may also be deleted). Raises
    what listing the names raises."""
    for name in sorted(driver.run(topic_names())):
        found = attempt(lambda name=name: driver.run(live_topic(topic_lineage(name), name)))
        if not (isinstance(found, Failure) and isinstance(found.error, NotFound)):
            yield name, found
