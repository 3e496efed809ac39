"""A warehouse: the topics under one root URL."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from lithify.log.cold_homes import check_cold_home
from lithify.log.retention_policy import RetentionPolicy, with_retention
from lithify.log.topic import Topic
from lithify.manifest.catalog import (
    create_topic,
    delete_topic,
    ever_had_topics,
    live_topic,
    topic_lineage,
)
from lithify.manifest.config import Setting, validate
from lithify.manifest.keys import is_segment_key
from lithify.manifest.known import KnownPartitions
from lithify.manifest.no_warehouse import begun, explain_no_topic
from lithify.manifest.walk import topics_found
from lithify.manifest.warehouse_settings import AlterWarehouse, parse_settings, spell_settings, warehouse_lineage
from lithify.store.apart import Fault
from lithify.store.driver import Clock, Driver
from lithify.store.errors import AlreadyExists, ErrorKind, InvalidRequest, NotFound
from lithify.store.opening_homes import opened_homes
from lithify.store.port import Store
from lithify.store.probe import probe as prove
from lithify.store.short_repr import named_repr
from lithify.store.urls import shown

__all__ = ["Warehouse", "WarehouseInfo", "open"]

PROBE_ROUNDS = 4  # rounds of simultaneous creates before a warehouse's first topic; 'lithify doctor' makes 16

log = structlog.wrap_logger(logging.getLogger("lithify.log"))


class WarehouseInfo(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    settings: dict[str, str]  # what was set; the rest have their defaults (docs/configuration.md)
    topics: tuple[str, ...]


def open(  # noqa: A001 - part of the public API, as lithify.open
    url: str | os.PathLike[str], clock: Clock | None = None, storage_options: Mapping[str, Any] | None = None
) -> "Warehouse":
    """Open the warehouse under `url`: s3://bucket/prefix, file:///folder, a path, memory://name, or another URL that
    fsspec knows. Makes no request. Raises InvalidRequest.

    `clock` (a function that returns milliseconds since 1970) replaces the store's own clock. `storage_options` are
    spelled as for s3fs. Among them may be "homes" (the options of other homes, by their URLs) and "cache" (see
    docs/operations.md).

    >>> warehouse = lithify.open("memory://example")
    >>> warehouse.topics()
    []
    """
    return Warehouse(Driver(opened_homes(url, storage_options, clock, is_segment_key), clock))


class Warehouse:
    """The topics under one URL. Thread-safe. Made by `lithify.open`.

    >>> warehouse = lithify.open("memory://example")
    >>> users = warehouse.create_topic("users", partitions=2, config={"cleanup.policy": "compact"})
    >>> warehouse.topics()
    ['users']
    >>> warehouse.delete_topic("users")

    `driver` runs protocol coroutines against `store`, which lies under `url`.
    """

    def __init__(self, driver: Driver) -> None:
        if not isinstance(driver, Driver):  # pyright: ignore[reportUnnecessaryIsInstance]  # a URL
            raise InvalidRequest("a warehouse is opened by its URL with lithify.open(url)")
        self.driver = driver

    def __repr__(self) -> str:
        return named_repr(self, shown(self.url))

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
        config: Mapping[str, Setting] | None = None,
        *,
        retention: RetentionPolicy | None = None,
        probe: bool = True,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic. `config` has Kafka's names and defaults; `retention` sets the bounds in one value, and adds
        delete to cleanup.policy.

        Before the first topic of a warehouse is created, the store is probed (on S3 about a second); `probe` False
        trusts it. `exist_ok`: a topic of that name that exists is returned as it is, whatever its partitions and
        configuration. Raises AlreadyExists, InvalidRequest, Unavailable.
        """
        if type(partitions) is not int:
            raise InvalidRequest(f"topic {name}: partitions must be an integer")
        stored = validate(with_retention(config or {}, retention, "delete"))
        check_cold_home(stored, self.driver.homes)
        lineage = topic_lineage(name)
        if probe:
            self._prove_before_the_first_topic()
        asked_ms = self.driver.now_ms()
        try:
            made = self.driver.run(create_topic(lineage, name, partitions, stored))
        except AlreadyExists:
            if not exist_ok:
                raise
            return self.topic(name)
        return Topic(self.driver, lineage, made, asked_ms)

    def _prove_before_the_first_topic(self) -> None:
        """Raises InvalidRequest if the store is unsafe or refuses access; Unavailable, within seconds, if away."""
        if Driver(self.store.hasty()).run(ever_had_topics()):
            return
        report = prove(self.store, rounds=PROBE_ROUNDS)
        report.require()
        for check in report.checks:
            if not check.ok:
                log.warning("store", url=report.url, check=check.name, found=check.detail)

    def topic(self, name: str, *, for_append: bool = False) -> Topic:
        """A handle of the topic. Raises NotFound if there is none.

        `for_append`: records are about to be appended, so if the warehouse has auto.create.topics.enable, the topic is
        created. Reading never creates a topic.
        """
        lineage = topic_lineage(name)
        try:
            return Topic(self.driver, lineage, *self.driver.dated(live_topic(lineage, name)))
        except NotFound as missing:
            if not for_append:
                raise explain_no_topic(self.driver, name, missing) from None
            return self._created(name, explain_no_topic(self.driver, name, missing))

    def _created(self, name: str, missing: NotFound) -> Topic:
        settings = parse_settings(self._settings())
        if not settings.auto_create_topics:
            remedy = "'lithify warehouse alter --config auto.create.topics.enable=true'"
            raise NotFound(f"{missing}. Appends do not create topics here; to change that: {remedy}") from None
        try:
            return self.create_topic(name, settings.partitions, settings.topic_config)
        except AlreadyExists:
            return self.topic(name)  # another first append was faster: use its topic

    def alter(self, settings: Mapping[str, Setting | None]) -> dict[str, str]:
        """Change settings of the warehouse (None: back to the default): auto.create.topics.enable, num.partitions, and
        topic configurations with the prefix `default.`, for topics created by their first append. Existing topics do
        not change. Returns all settings that are now set. Raises InvalidRequest."""
        return self.driver.run(warehouse_lineage().commit(AlterWarehouse(spell_settings(settings)))).result

    def describe(self) -> WarehouseInfo:
        return WarehouseInfo(url=shown(self.url), settings=self._settings(), topics=tuple(self.topics()))

    def _settings(self) -> dict[str, str]:
        head = self.driver.run(warehouse_lineage().refresh()).value
        return {} if head is None else dict(head.config)

    def topics(self) -> list[str]:
        """The names of all live topics, sorted. One LIST per thousand names, and a few GETs for each topic.

        Includes topics whose file is damaged or from a newer lithify: it is unknown whether they were deleted."""
        names: list[str] = []
        for name, known in topics_found(KnownPartitions(self.driver)):
            if isinstance(known, Fault) and known.kind not in (ErrorKind.CORRUPT, ErrorKind.INVALID_REQUEST):
                raise known.error()
            names.append(name)
        return names

    def delete_topic(self, name: str) -> None:
        """Delete a topic and, once garbage is collected, all of its data. Raises NotFound."""
        lineage = topic_lineage(name)
        try:
            found = self.driver.run(live_topic(lineage, name))
        except NotFound as missing:
            raise explain_no_topic(self.driver, name, missing) from None
        self.driver.run(delete_topic(lineage, found))

    @property
    def begun(self) -> bool:
        """Whether it ever had a topic or settings. Usually two requests."""
        return begun(self.driver)

    def close(self) -> None:
        """Close connections; there is nothing to flush. From then on this object, and whatever was made from it,
        refuses requests with InvalidRequest, whatever the store."""
        self.driver.homes.close()
