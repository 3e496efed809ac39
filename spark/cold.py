"""A query that reads segments of cold homes says so once, on the driver (docs/homes.md): that may be slow, and costs
retrieval there. PySpark's data sources have no metrics of their own."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lithify.segment.read_task import ReadTask

__all__ = ["tell_cold"]


def tell_cold(topic: str, tasks: "Iterable[ReadTask]") -> bool:
    """Whether there was something to say."""
    from lithify.manifest.words import counted
    from lithify.segment.read_task import cold_segments

    found = cold_segments(tasks)
    if found:
        logging.getLogger("lithify.spark").warning(
            "topic %s: this query reads %s of a cold home; 'lithify home status %s' shows what is where",
            topic,
            counted(found, "segment"),
            topic,
        )
    return found > 0
