"""Takes tables of other libraries, through Arrow's C interface, and picks the columns that make records.

`tables.py` then gives these columns the types of an append.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from lithify.log.tables import TABLE_BYTES_MAX
from lithify.segment.schema import APPEND
from lithify.store.errors import InvalidRequest

__all__ = ["AS_NAMED", "ArrowArray", "ArrowStream", "Columns", "Frame", "frame_of"]

_INDEX = "__index_level_"  # pandas' name for an index of rows without a name
_NAMED_MAX = 12  # columns, in a refusal
_ARGUMENTS = {"timestamp_ms": "timestamp"}  # where it is not named as the column


@runtime_checkable
class ArrowStream(Protocol):
    """Any object that exports a stream of batches, such as a DataFrame of pandas or polars, a relation of DuckDB, or a
    `pyarrow.RecordBatchReader`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """Any object that exports one batch, such as a `pyarrow.RecordBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


Frame = ArrowStream | ArrowArray


class Columns(NamedTuple):
    """Which columns of a table, or fields of a dict, are a record's. None: the one that has lithify's name, if any."""

    key: str | None = None
    value: str | None = None
    timestamp: str | None = None

    @property
    def chosen(self) -> bool:
        """Whether columns were named: then the others are left out. Otherwise a column too many is refused."""
        return any(name is not None for name in self)

    @property
    def shown(self) -> dict[str, str]:
        """Of the columns that were named, how a refusal shows them: by the column and the argument."""
        given = {"key": self.key, "value": self.value, "timestamp_ms": self.timestamp}
        return {role: f"{name!r} ({_ARGUMENTS.get(role, role)}=)" for role, name in given.items() if name is not None}

    def find(self, known: Sequence[str], where: str) -> dict[str, str]:
        """The source of each of lithify's columns. Raises InvalidRequest for one that was named and is not there."""
        found: dict[str, str] = {}
        for name, asked in zip(("key", "value", "timestamp_ms", "headers"), (*self, None), strict=True):
            if asked is not None and asked not in known:
                there = ", ".join(known[:_NAMED_MAX]) + (", …" if len(known) > _NAMED_MAX else "")
                argument = _ARGUMENTS.get(name, name)
                raise InvalidRequest(
                    f"{where}: there is no column {asked!r} ({argument}=); there are {there or 'none'}"
                )
            if asked is not None or name in known:
                found[name] = asked or name
        return found


AS_NAMED = Columns()


def frame_of(frame: Frame, columns: Columns, where: str) -> pa.Table:
    """The columns of `frame` that an append takes, under lithify's names, without copying them. A stream is read to its
    end, or until it is larger than any append. Raises InvalidRequest."""
    if isinstance(frame, pa.Table):
        return _chosen(frame, columns, where)
    reader = _reader(frame, where)
    schema = _chosen(reader.schema.empty_table(), columns, where).schema
    batches: list[pa.RecordBatch] = []
    held = 0
    for batch in reader:
        batches.append(_chosen(batch, columns, where))
        held += batches[-1].nbytes
        # `nbytes` also counts Arrow's offsets and the times, which TABLE_BYTES_MAX does not.
        if held > 2 * TABLE_BYTES_MAX:
            raise InvalidRequest(f"{where}: this is more than one append can hold: append it in parts")
    return pa.Table.from_batches(batches, schema)


def _reader(frame: Frame, where: str) -> pa.RecordBatchReader:
    given: Any = frame
    try:
        if isinstance(given, ArrowStream):
            return pa.RecordBatchReader.from_stream(given)
        batch = pa.record_batch(given)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except (pa.ArrowException, TypeError):
        # Not chained: Arrow's message may quote values.
        raise InvalidRequest(
            f"{where}: this {type(frame).__name__} exports no table: give one with columns {', '.join(APPEND.names)}"
        ) from None


def _chosen(table: Any, columns: Columns, where: str) -> Any:
    """`table` or batch with the columns that were asked for, under lithify's names."""
    known: list[str] = table.schema.names
    if not columns.chosen:
        if not any(name.startswith(_INDEX) for name in known):
            return table
        taken = [(name, at) for at, name in enumerate(known) if not name.startswith(_INDEX)]
    else:
        taken = [(name, known.index(source)) for name, source in columns.find(known, where).items()]
        for _, at in taken:
            if known.count(known[at]) > 1:
                raise InvalidRequest(f"{where}: there are two columns {known[at]!r}: rename or drop one")
    return type(table).from_arrays([table.column(at) for _, at in taken], names=[name for name, _ in taken])
