"""What runs in a Spark worker: one sealed order in, one sealed reply out, both JSON.

Every error, foreseen or not, is answered as data: an exception would reach Spark's logs with whatever it quotes.
Clients are opened here, once per process and store; an order names stores and never holds a secret.
"""

import functools
import importlib.metadata
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from lithify.compactor.engine import TaskFailure
from lithify.compactor.engines.outcome import outcome_of
from lithify.compactor.engines.stop_file import working
from lithify.segment.check import CheckTask, Finding, check_segments
from lithify.segment.execute import TaskCancelled, execute
from lithify.segment.memory import keep_freed_memory
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.homes import Homes
from lithify.store.opening import open_spec
from lithify.store.port import StoreSpec

__all__ = ["Order", "Reply", "installed_version", "obey", "obey_batches", "seal", "unseal"]


class Stamp(msgspec.Struct, frozen=True):
    """The part of an order that every release can read."""

    version: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that travels to a worker: what to do, and how stores are opened there."""

    version: str  # of the driver's lithify
    work: MergeTask | CheckTask
    homes: dict[str, StoreSpec]  # as in `Homes`
    stop_file: str | None = None  # where driver and worker share a machine


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the fields is set; none: the task was cancelled."""

    result: TaskResult | None = None
    failure: TaskFailure | None = None
    findings: tuple[Finding, ...] | None = None
    refused: str = ""  # why nothing was done


_replies = msgspec.json.Decoder(Reply)  # at import: msgspec prepares a type safely in one thread only


@functools.cache
def installed_version() -> str:
    """The version of lithify in this process."""
    try:
        return importlib.metadata.version("lithify")
    except importlib.metadata.PackageNotFoundError:
        return "without version (its wheel's metadata is missing)"


def seal(order: Order) -> str:
    return msgspec.json.encode(order).decode()


def unseal(reply: str) -> Reply:
    return _replies.decode(reply)


def obey(sealed: str) -> str:
    """Carry out a sealed order; answers with a sealed reply."""
    return msgspec.json.encode(_reply(sealed)).decode()


def obey_batches(sealed: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`obey` as the function of a `mapInArrow` over one row, for Spark Connect."""
    for _ in rows:  # Spark wants its input read to the end
        pass
    yield pa.RecordBatch.from_pydict({"reply": pa.array([obey(sealed)], pa.string())})


def _reply(sealed: str) -> Reply:
    stamp = msgspec.json.decode(sealed, type=Stamp)
    if stamp.version != installed_version():
        reason = f"worker runs lithify {installed_version()}, this is {stamp.version}: install the same wheel"
        return Reply(refused=reason)
    order = msgspec.json.decode(sealed, type=Order)
    match order.work:
        case MergeTask() as task:
            try:
                outcome = outcome_of(task, lambda: _merge(task, order))
            except TaskCancelled:
                return Reply()
            return Reply(result=outcome) if isinstance(outcome, TaskResult) else Reply(failure=outcome)
        case CheckTask() as task:
            return Reply(findings=check_segments(_opened(order), task))


def _merge(task: MergeTask, order: Order) -> TaskResult:
    if order.stop_file is None:
        return _execute(task, order, None)
    with working(order.stop_file) as stopped:
        return _execute(task, order, stopped)


def _execute(task: MergeTask, order: Order, stopped: Callable[[], bool] | None) -> TaskResult:
    keep_freed_memory()
    return execute(task, _opened(order), stopped)


def _opened(order: Order) -> Homes:
    return Homes({home: open_spec(spec) for home, spec in order.homes.items()})
