"""Tables in every type and layout that Arrow has for bytes: an append takes them as they are, or refuses in words."""

import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.log.partition import Partition
from lithify.log.tables import TABLE_BYTES_MAX, normalise
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.memory import MemoryStore

NOW_MS = 1_700_000_000_000
MIB = 1 << 20

TEXTS = st.none() | st.sampled_from(["", "a", "schlüssel", "longer than what a view holds by itself", "z" * 5_000])
BYTES = TEXTS.map(lambda text: None if text is None else text.encode())
HEADERS = st.none() | st.lists(
    st.tuples(st.sampled_from(["", "h", "a name longer than twelve bytes"]), BYTES), max_size=3
)

PLAIN = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view())
INDICES = (pa.int8(), pa.int32(), pa.uint32(), pa.int64())


def fixed(values: list[Any]) -> pa.Array:
    return pa.array([None if v is None else v[:4].ljust(4, b"-") for v in values], pa.binary(4))


def of_type(kind: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: (
        pa.array(values, pa.binary()).cast(pa.string() if "string" in str(kind) else pa.binary()).cast(kind)
    )


def dictionary(kind: pa.DataType, index: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    def make(values: list[Any]) -> pa.Array:
        known = sorted({value for value in values if value is not None})
        codes = pa.array([None if value is None else known.index(value) for value in values], index)
        return pa.DictionaryArray.from_arrays(codes, of_type(kind)([*known, b"unused"]))

    return make


MAKERS: dict[str, Callable[[list[Any]], pa.Array]] = {
    **{str(kind): of_type(kind) for kind in PLAIN},
    **{f"{index} of {kind}": dictionary(kind, index) for kind in PLAIN for index in INDICES},
    "fixed": fixed,
}


@st.composite
def layouts(draw: Any, make: Callable[[list[Any]], pa.Array], values: list[Any], padding: Any) -> pa.ChunkedArray:
    """`values` in chunks, some empty, each perhaps a slice of something longer."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    chunks: list[pa.Array] = []
    for first, last in zip([0, *cuts], [*cuts, len(values)], strict=True):
        before, after = draw(st.lists(padding, max_size=9)), draw(st.lists(padding, max_size=2))
        whole = make([*before, *values[first:last], *after])
        chunks.append(whole.slice(len(before), last - first))
    if draw(st.booleans()):
        chunks.insert(draw(st.integers(0, len(chunks))), make([]))
    return pa.chunked_array(chunks, make([]).type)


def lists_of(entry: tuple[str, str], shape: str) -> Callable[[list[Any]], pa.Array]:
    """Headers as lists, large lists or maps of keys and values in the layouts of `entry`."""

    def make(values: list[Any]) -> pa.Array:
        pairs = [pair for row in values for pair in row or ()]
        keys = MAKERS[entry[0]]([key.encode() for key, _ in pairs])
        entries = pa.StructArray.from_arrays(
            [keys, MAKERS[entry[1]]([value for _, value in pairs])], names=["key", "value"]
        )
        ends = [0]
        for row in values:
            ends.append(ends[-1] + len(row or ()))
        valid = pa.array([row is not None for row in values], pa.bool_())
        if shape == "map":
            plain = pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, entries.field(1))
            buffers = [valid.buffers()[1], plain.buffers()[1]]
            return pa.Array.from_buffers(plain.type, len(values), buffers, children=[plain.values])
        kind = pa.ListArray if shape == "list" else pa.LargeListArray
        width = pa.int32() if shape == "list" else pa.int64()
        return kind.from_arrays(
            pa.array(ends, width), entries, mask=pa.array([row is None for row in values], pa.bool_())
        )

    return make


@st.composite
def tables(draw: Any) -> tuple[pa.Table, list[tuple[Any, Any, Any]]]:
    rows = draw(st.integers(1, 12))
    columns: dict[str, pa.ChunkedArray] = {}
    expected: dict[str, list[Any]] = {}
    for name in ("key", "value"):
        values = draw(st.lists(BYTES, min_size=rows, max_size=rows))
        maker = draw(st.sampled_from(sorted(MAKERS)))
        if draw(st.integers(0, 9)) == 0:
            columns[name], expected[name] = pa.chunked_array([pa.nulls(rows)]), [None] * rows
            continue
        columns[name] = draw(layouts(MAKERS[maker], values, BYTES))
        expected[name] = fixed(values).to_pylist() if maker == "fixed" else values
    headers = draw(st.lists(HEADERS, min_size=rows, max_size=rows))
    texts = sorted(name for name in MAKERS if name != "fixed")
    entry = draw(st.sampled_from(texts)), draw(st.sampled_from(texts))
    shape = draw(st.sampled_from(["list", "large_list", "map"]))
    columns["headers"] = draw(layouts(lists_of(entry, shape), headers, HEADERS))
    return pa.table(columns), list(zip(expected["key"], expected["value"], headers, strict=True))


def partition() -> Partition:
    topic = Warehouse(Driver(MemoryStore())).create_topic("t", config={"cleanup.policy": "delete"}, probe=False)
    return topic.partition(0)


@pytest.mark.slow
@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(tables())
def test_every_layout_is_taken_as_it_is(given: tuple[pa.Table, list[tuple[Any, Any, Any]]]) -> None:
    table, expected = given
    part = partition()
    part.append(table)
    found = [(record.key, record.value, record.headers) for record in part.read()]
    assert found == [(key, value, tuple(headers or ())) for key, value, headers in expected]


UNFIT = (
    pa.list_view(pa.binary()),
    pa.run_end_encoded(pa.int32(), pa.binary()),
    pa.struct([("a", pa.binary())]),
    pa.dense_union([pa.field("a", pa.binary())]),
    pa.dictionary(pa.int32(), pa.int64()),
    pa.decimal128(5),
    pa.uuid(),
    pa.month_day_nano_interval(),
)


@pytest.mark.parametrize("kind", UNFIT, ids=str)
@pytest.mark.parametrize("name", ["key", "value", "headers", "timestamp_ms"])
def test_what_is_no_bytes_is_refused_in_words(kind: pa.DataType, name: str) -> None:
    whole = pa.table({"value": [b"v"]})
    table = (
        whole.set_column(0, name, pa.nulls(1, kind))
        if name == "value"
        else whole.append_column(name, pa.nulls(1, kind))
    )
    if name == "timestamp_ms" and (pa.types.is_decimal(kind) or pa.types.is_dictionary(kind)):
        assert normalise(table, NOW_MS).column(name).to_pylist() == [NOW_MS]
        return
    with pytest.raises(InvalidRequest, match=f"column '{name}' has type"):
        normalise(table, NOW_MS)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([2**62], pa.timestamp("s")),
        pa.array(["x"], pa.string_view()),
        pa.array([b"x"], pa.binary_view()),
        pa.array(["x"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_a_time_that_is_none_is_refused_in_words(column: pa.Array) -> None:
    with pytest.raises(InvalidRequest, match="column 'timestamp_ms'"):
        normalise(pa.table({"value": [b"v"], "timestamp_ms": column}), NOW_MS)


def test_a_header_name_that_is_not_text_is_refused_in_words() -> None:
    name = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    entries = pa.StructArray.from_arrays([name, pa.array([b"v"])], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), entries)
    with pytest.raises(InvalidRequest, match="column 'headers'"):
        normalise(pa.table({"value": [b"v"], "headers": headers}), NOW_MS)


def views(kind: pa.DataType, rows: int) -> pa.Array:
    """So many times the same MiB."""
    content = b"x" * MIB
    view = struct.pack("<i4sii", len(content), content[:4], 0, 0)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(view * rows), pa.py_buffer(content)])


def repeated(shape: str, rows: int) -> pa.Table:
    """A table that stands for `rows` MiB, and has one."""
    if shape == "dictionary":
        codes = pa.array([0] * rows, pa.int32())
        return pa.table({"value": pa.DictionaryArray.from_arrays(codes, pa.array([b"x" * MIB]))})
    if shape == "dictionary of views":
        codes = pa.array([0] * rows, pa.int32())
        return pa.table({"value": pa.DictionaryArray.from_arrays(codes, views(pa.binary_view(), 1))})
    if shape == "headers":
        pairs = [pa.array(["k"] * rows), views(pa.binary_view(), rows)]
        entries = pa.StructArray.from_arrays(pairs, names=["key", "value"])
        headers = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), entries)
        return pa.table({"value": [b""] * rows, "headers": headers})
    return pa.table({"value": views({"binary": pa.binary_view(), "string": pa.string_view()}[shape], rows)})


SHAPES = ("binary", "string", "dictionary", "dictionary of views", "headers")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4_200, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (1_100, 2_100))])
def test_more_than_an_append_may_hold_is_refused_in_words(rows: int) -> None:
    """Of views Arrow's cast wraps around beyond 2 GiB; from 4 GiB on it even looks whole, and reading it crashes."""
    program = (
        "from tests.log.test_layouts import SHAPES, InvalidRequest, partition, repeated\n"
        "for shape in SHAPES:\n"
        f"    try: partition().append(repeated(shape, {rows}))\n"
        "    except InvalidRequest as error: print(f'{shape}: {error}', flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in told] == list(SHAPES)
    for line in told:
        assert ": the table holds " in line
        assert line.endswith(f"at most {TABLE_BYTES_MAX} are allowed: append it in parts")


@pytest.mark.parametrize("start", [0, 2_000, 4_199])
def test_a_short_slice_of_what_is_too_much_is_taken(start: int) -> None:
    for shape in ("binary", "string", "dictionary", "headers"):
        table = normalise(repeated(shape, 4_200).slice(start, 1), NOW_MS)
        assert table.num_rows == 1
        assert MIB <= table.nbytes < 2 * MIB


def test_chunks_may_share_a_dictionary() -> None:
    known = pa.array([b"x" * MIB] * 40)
    chunk = pa.DictionaryArray.from_arrays(pa.array([3], pa.int32()), known)
    table = normalise(pa.table({"value": pa.chunked_array([chunk] * 50)}), NOW_MS)
    assert (table.num_rows, table.column("value").chunk(0)[49].as_py()) == (50, b"x" * MIB)


def test_a_dictionary_that_is_too_large_is_refused_in_words() -> None:
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0]), views(pa.binary_view(), 4_200))
    with pytest.raises(InvalidRequest, match=r"column 'value' has type dictionary.* cast it before appending"):
        normalise(pa.table({"value": dictionary}), NOW_MS)
