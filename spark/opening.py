"""The topic of an option set, on the driver; and what executors need to reach the same store."""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark_lithify.options import Common

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.opening_homes import opened_homes, opened_spec
from lithify.store.port import StoreSpec

__all__ = ["Opened", "opened", "topic_on_executor"]


class Opened(NamedTuple):
    topic: Topic
    driver: Driver

    def spec(self, needed: Iterable[str] = ()) -> StoreSpec:
        """How executors open the warehouse, and the homes that they need."""
        return self.driver.homes.spec(needed)


def opened(common: Common) -> Opened:
    """Raises InvalidRequest, NotFound if there is no such topic, Unavailable."""
    if common.warehouse.startswith("memory:"):
        raise InvalidRequest("memory:// lies in one process, and Spark has several: use s3:// or file://")
    homes = opened_homes(common.warehouse, common.storage_options)
    spec = homes.spec()
    if spec.withheld or spec.credentials_file is not None:
        raise InvalidRequest(
            f"the storage options {', '.join(spec.withheld)} may be secret, and Spark would write them into its event "
            "log: give credentials to the driver and the executors in another way, as environment variables"
        )
    driver = Driver(homes)
    return Opened(Warehouse(driver).topic(common.topic), driver)


def topic_on_executor(spec: StoreSpec, topic: str) -> Topic:
    """Raises InvalidRequest, NotFound, Unavailable."""
    return Warehouse(Driver(opened_spec(spec))).topic(topic)
