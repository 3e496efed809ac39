"""A warehouse: the topics under one root URL."""

import logging
from collections.abc import Mapping
from typing import Any

import structlog

from lithify.log.topic import Topic
from lithify.manifest.catalog import create_topic, delete_topic, live_topic, topic_lineage, topic_names
from lithify.manifest.config import validate
from lithify.manifest.keys import check_topic_name
from lithify.store.driver import Clock, Driver
from lithify.store.errors import InvalidRequest, NotFound
from lithify.store.opening import open_store
from lithify.store.port import Store
from lithify.store.probe import probe as prove

__all__ = ["Warehouse", "open"]

PROBE_ROUNDS = 4  # of simultaneous creates before a warehouse's first topic; 'lithify doctor' takes 16

log = structlog.wrap_logger(logging.getLogger("lithify.log"))


def open(  # noqa: A001 - the face's own name, as lithify.open
    url: str, clock: Clock | None = None, storage_options: Mapping[str, Any] | None = None
) -> "Warehouse":
    """Open the warehouse under `url`: s3://bucket/prefix, file:///folder, a path, memory://name, or what fsspec knows.

    `clock` (-> milliseconds since 1970) stands in for the store's own; `storage_options` are spelled as s3fs spells
    them. Makes no request. Raises InvalidRequest.
    """
    return Warehouse(Driver(open_store(url, storage_options, clock), clock))


def _may_be_topic(name: str) -> bool:
    """Whether a folder can be a topic's; others may lie in the same bucket."""
    try:
        check_topic_name(name)
    except InvalidRequest:
        return False
    return True


class Warehouse:
    """`driver` runs protocol coroutines against `store`, which lies under `url`. Thread-safe."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def __repr__(self) -> str:
        return f"Warehouse({self.url!r})"

    def __enter__(self) -> "Warehouse":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def store(self) -> Store:
        return self.driver.store

    @property
    def url(self) -> str:
        return self.store.url

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str | int | float] | None = None,
        *,
        probe: bool = True,
    ) -> Topic:
        """Create a topic. Configuration has Kafka's names and defaults.

        Before the first topic of a warehouse the store must prove that it keeps its promises (on S3 about a second);
        `probe` False trusts it. Raises AlreadyExists, InvalidRequest.
        """
        if type(partitions) is not int:
            raise InvalidRequest(f"topic {name}: a partition count is a whole number")
        stored = validate(config or {})
        lineage = topic_lineage(name)
        if probe and not self.driver.run(topic_names()):
            self._prove()
        return Topic(self.driver, lineage, self.driver.run(create_topic(lineage, name, partitions, stored)))

    def _prove(self) -> None:
        report = prove(self.store, rounds=PROBE_ROUNDS)
        report.require()
        for check in report.checks:
            if not check.ok:
                log.warning("store", url=report.url, check=check.name, found=check.detail)

    def topic(self, name: str) -> Topic:
        """Raises NotFound."""
        lineage = topic_lineage(name)
        return Topic(self.driver, lineage, self.driver.run(live_topic(lineage, name)))

    def topics(self) -> list[str]:
        """The names of all live topics, sorted. One LIST per thousand, and a few GETs for each topic."""
        return sorted(name for name in self.driver.run(topic_names()) if _may_be_topic(name) and self._is_live(name))

    def _is_live(self, name: str) -> bool:
        try:
            self.driver.run(live_topic(topic_lineage(name), name))
        except NotFound:
            return False
        return True

    def delete_topic(self, name: str) -> None:
        """Delete a topic and, once garbage is collected, all of its data. Raises NotFound."""
        lineage = topic_lineage(name)
        self.driver.run(delete_topic(lineage, self.driver.run(live_topic(lineage, name))))

    def close(self) -> None:
        """Let go of connections. Data need no closing."""
        self.store.close()
