"""One piece of work in numbered parts: by Spark's workers, or one after the other in this process.

Rows go from store to store: Spark carries the number of a part to a worker, and its reply back. What a worker needs
besides is pickled with the function, so nothing secret may be in it.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from lithify.manifest.words import counted
from lithify.store.apart import Fault, attempt
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.opening import open_store
from lithify.store.port import StoreSpec
from lithify.store.s3_options import SECRET_OPTIONS
from lithify.work.pays import spark_pays
from lithify.work.spark_conf import is_connect, parse_spark_conf
from lithify.work.spark_errors import explain
from lithify.work.spark_session import close_remote, close_session, open_session, prepare

__all__ = ["Where", "check_travels", "in_parts", "travelling", "where_to_work"]

_LOCAL = "local[*]"

Part = Callable[[int], bytes]


class Where(NamedTuple):
    """Where parts are done. `engine` None: nobody chose."""

    engine: Literal["spark", "local"] | None
    master: str | None = None
    spark_conf: tuple[str, ...] = ()


class _Reply(msgspec.Struct, frozen=True):
    number: int
    reply: bytes = b""
    fault: Fault | None = None


def where_to_work(where: Where, size: int) -> Where:
    """`where` with an engine: by `size`, in bytes, if nobody chose. Raises InvalidRequest for settings of Spark's with
    the local engine."""
    if where.engine == "local" and (where.master or where.spark_conf):
        flag = "--master" if where.master else "--spark-conf"
        raise InvalidRequest(f"{flag} is Spark's, and the engine is local: leave one of them out")
    if where.engine is not None:
        return where
    return where._replace(engine="spark" if where.master or spark_pays(size) else "local")


def travelling(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which workers open `url`: nothing secret, and where requests go is said, so that a worker's own
    variables do not decide it. Raises InvalidRequest if there is something secret."""
    scheme, _, rest = url.partition("://")
    on_s3 = scheme in ("s3", "s3a")
    if not (options or on_s3):
        return {}
    if on_s3 and (secret := sorted(SECRET_OPTIONS & options.keys())):
        raise _secret(secret)
    with closing(open_store(f"s3://{rest.partition('/')[0]}" if on_s3 else url, options)) as store:
        spec = store.spec()
    check_travels(spec)
    return dict(spec.options)


def check_travels(spec: StoreSpec) -> None:
    """Raises InvalidRequest unless workers can open this store with what is pickled for them."""
    if spec.url.startswith("memory:"):
        raise InvalidRequest("memory:// lies in this process, and Spark's workers are others: use --engine local")
    if spec.withheld or spec.credentials_file is not None:
        raise _secret(spec.withheld)


def _secret(names: Iterable[str]) -> InvalidRequest:
    return InvalidRequest(
        f"the storage options {', '.join(names)} may be secret, and do not travel to Spark's workers: give credentials "
        "as environment variables, or use --engine local"
    )


def in_parts(part: Part, count: int, where: Where) -> list[bytes]:
    """The replies of `part(0)` … `part(count - 1)`, in this order. Requires: a part that is done twice, or by two
    workers at once, does no harm. Raises the error of the first part that failed, or Unavailable if Spark did."""
    if where.engine == "local":
        return [part(number) for number in range(count)]
    replies = sorted(_on_spark(part, count, where), key=lambda reply: reply.number)
    for reply in replies:
        if reply.fault is not None:
            raise reply.fault.error()
    if [reply.number for reply in replies] != list(range(count)):
        raise Unavailable(f"Spark answered for {len(replies)} of {counted(count, 'part')}: try again")
    return [reply.reply for reply in replies]


def _on_spark(part: Part, count: int, where: Where) -> Sequence[_Reply]:
    master, settings = where.master or _LOCAL, parse_spark_conf(where.spark_conf)
    prepare(master, settings)
    session, new = open_session(master, settings)
    try:
        numbers = session.range(0, count, 1, count)
        rows = numbers.mapInArrow(functools.partial(_done, part), "reply binary").collect()
    except Exception as error:  # py4j's, PySpark's or gRPC's
        raise Unavailable(f"Spark could not do it: {explain(error).reason}") from error
    finally:
        if new:
            (close_remote if is_connect(master) else close_session)(session)
    return [msgspec.json.decode(bytes(row.reply), type=_Reply) for row in rows]


def _done(part: Part, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker. Errors are replies: Spark's logs would quote them with whatever they hold."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            found = attempt(functools.partial(part, number))
            reply = _Reply(number, fault=found) if isinstance(found, Fault) else _Reply(number, found)
            yield pa.RecordBatch.from_pydict({"reply": pa.array([msgspec.json.encode(reply)], pa.binary())})
