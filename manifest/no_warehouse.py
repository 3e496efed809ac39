"""A topic that is missing because the whole warehouse is: its URL is probably mistyped."""

from contextlib import suppress

from lithify.manifest.catalog import ever_had_topics
from lithify.manifest.warehouse_settings import warehouse_lineage
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError, NotFound
from lithify.store.urls import shown

__all__ = ["begun", "explain_no_topic"]


def begun(driver: Driver) -> bool:
    """Whether the warehouse ever had a topic or settings. Usually two requests."""
    return driver.run(ever_had_topics()) or driver.run(warehouse_lineage().refresh()).value is not None


def explain_no_topic(driver: Driver, name: str, missing: NotFound) -> NotFound:
    """The error to raise for a missing topic `name`."""
    with suppress(LithifyError):
        if not begun(driver):
            return NotFound(
                f"topic {name} does not exist here: there is no warehouse at {shown(driver.store.url)}, where nothing "
                "was ever created; check the URL"
            )
    return missing
