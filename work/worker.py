"""What runs in a worker: one sealed order in, one sealed reply out.

Every error, foreseen or not, is answered as data: an exception would reach Spark's logs with whatever it quotes.
Clients are opened here, once per process and store; an order names stores and never holds a secret.
"""

import socket
from collections.abc import Callable, Iterator

import pyarrow as pa
from msgspec.structs import replace

from lithify.segment.check import CheckTask, check_segments, unread
from lithify.segment.execute import TaskCancelled, execute
from lithify.segment.memory import keep_freed_memory
from lithify.segment.set_aside import set_aside
from lithify.segment.task import JobTask, MergeTask, MoveTask, TaskFailure, TaskResult
from lithify.store.apart import Fault, attempt
from lithify.store.homes import Homes
from lithify.store.opening_homes import opened_specs
from lithify.work.order import Cancelled, Checked, Order, Refused, Reply, sealed_reply, unsealed_order
from lithify.work.outcome import outcome_of
from lithify.work.stop_file import working

__all__ = ["obey", "obey_batches"]


def obey(sealed: str) -> str:
    """Carry out a sealed order; answers with a sealed reply."""
    reply = sealed_reply(_reply(unsealed_order(sealed)))
    set_aside()
    return reply


def obey_batches(sealed: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`obey` as the function of a `mapInArrow` over one row, for Spark Connect."""
    for _ in rows:  # Spark wants its input read to the end
        pass
    yield pa.RecordBatch.from_pydict({"reply": pa.array([obey(sealed)], pa.string())})


def _reply(order: Order | Refused) -> Reply:
    if isinstance(order, Refused):
        return order
    match order.work:
        case MergeTask() | MoveTask() as task:
            try:
                return _located(order, outcome_of(task, lambda: _do(task, order)))
            except TaskCancelled:
                return Cancelled()
        case CheckTask() as task:
            found = attempt(lambda: check_segments(_opened(order), task))
            return Checked(unread(task, _where(order) + found.text) if isinstance(found, Fault) else found)


def _located(order: Order, outcome: TaskResult | TaskFailure) -> TaskResult | TaskFailure:
    """A failure names its machine: it may be the only one that cannot reach the store."""
    if isinstance(outcome, TaskResult) or not order.elsewhere:
        return outcome
    return replace(outcome, reason=_where(order) + outcome.reason)


def _where(order: Order) -> str:
    return f"worker {socket.gethostname()}: " if order.elsewhere else ""


def _do(task: JobTask, order: Order) -> TaskResult:
    if order.stop_file is None:
        return _execute(task, order, None)
    with working(order.stop_file) as stopped:
        return _execute(task, order, stopped)


def _execute(task: JobTask, order: Order, stopped: Callable[[], bool] | None) -> TaskResult:
    keep_freed_memory(large_rows=task.large_rows)
    return execute(task, _opened(order), stopped)


def _opened(order: Order) -> Homes:
    return opened_specs(order.homes)
