"""The partitions that an operation is about; and the same question to each of them, past those that fail."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import msgspec

from lithify.log.beside import beside_or_alone
from lithify.manifest.catalog import partition_keys, partition_of
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import TopicFile
from lithify.manifest.walk import FoundPartition
from lithify.manifest.words import counted
from lithify.store.apart import Ending, Fault, attempt, ending_of
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, NotFound
from lithify.store.short_repr import short_repr

__all__ = ["Answers", "Failed", "Places", "WarehouseLike", "only_partition", "partition_at", "required"]

T = TypeVar("T")


class WarehouseLike(Protocol):
    @property
    def driver(self) -> Driver: ...


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A partition for which an operation failed, or a topic that cannot be read; the others were done."""

    topic: str
    partition: int | None  # None: the topic
    fault: Fault


def partition_at(known: KnownPartitions, topic: str, partition: int) -> FoundPartition:
    """Raises NotFound."""
    found = known.topic(topic)
    return FoundPartition(partition_of(found, partition), found)


def only_partition(topic: str, partitions: int) -> int:
    """The number of the topic's only partition. Raises InvalidRequest if it has several."""
    if partitions > 1:
        raise InvalidRequest(f"topic {topic} has {partitions} partitions: say which one, from 0 to {partitions - 1}")
    return 0


class Answers(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What was found or done, one by one, and where it failed."""

    items: tuple[T, ...]
    failed: tuple[Failed, ...] = ()

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(each.fault for each in self.failed)

    @property
    def ending(self) -> Ending:
        return ending_of(self.faults)

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Places:
    """One partition of a topic, or all of them."""

    driver: Driver
    topic: TopicFile
    chosen: tuple[FoundPartition, ...]

    @classmethod
    def of(cls, known: KnownPartitions, topic: str, partition: int | None = None) -> "Places":
        """`partition` None: all. Raises NotFound."""
        found = known.topic(topic)
        keys = partition_keys(found) if partition is None else [partition_of(found, partition)]
        return cls(known.driver, found, tuple(FoundPartition(each, found) for each in keys))

    def ask(self, work: Callable[[FoundPartition], T]) -> Answers[T]:
        """What `work` returns for each partition, past those for which it fails. If it failed for every one of them,
        the first error is raised, and its notes say how many others there were.

        Partitions of a far store are asked side by side, by its threads. Requires: `work` is thread-safe, and asks no
        other home."""
        return self._answers(self.driver.all_of(lambda found: attempt(partial(work, found)), self.chosen))

    def ask_beside_or_alone(
        self, work: Callable[[FoundPartition], T], beside: Callable[[FoundPartition], T]
    ) -> Answers[T]:
        """As `ask`, for work that may ask another home, or takes long. `beside` is asked as `ask` asks; where it raises
        AskAlone (lithify.log.beside), `work` is, by the caller."""
        calls = beside_or_alone(self.driver.store, enumerate(self.chosen), work, beside)
        return self._answers(attempt(call) for _, call in calls)

    def _answers(self, answers: Iterable[T | Fault]) -> Answers[T]:
        done: list[T] = []
        failed: list[Failed] = []
        for found, answer in zip(self.chosen, answers, strict=True):
            if isinstance(answer, Fault):
                failed.append(Failed(topic=found.keys.topic, partition=found.keys.partition, fault=answer))
            else:
                done.append(answer)
        if failed and not done:
            error = failed[0].fault.error()
            if len(failed) > 1:
                error.add_note(f"{counted(len(failed) - 1, 'other partition')} of {self.topic.topic} failed, too")
            raise error
        return Answers(items=tuple(done), failed=tuple(failed))

    def ask_for_many(self, work: Callable[[FoundPartition], Iterable[T]]) -> Answers[T]:
        """As `ask`, of work that returns any number of answers for each partition."""
        answers = self.ask(lambda found: tuple(work(found)))
        return Answers(items=tuple(item for items in answers.items for item in items), failed=answers.failed)


def required(answers: Answers[T], missing: str) -> Answers[T]:
    """`answers`, if there are any, or some failed. Raises NotFound, saying that `missing`."""
    if not answers.items and not answers.failed:
        raise NotFound(missing)
    return answers
