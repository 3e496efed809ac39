"""A source that is cut anywhere, or has a bit flipped, or cannot be read any more: one clear error, of the right kind,
which says truly how far the import came and goes on exactly."""

import builtins
import bz2
import errno
import gzip
import io
import json
import lzma
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import EndpointConnectionError
from fsspec.exceptions import FSTimeoutError

from lithify.cli.records import bulk, identity, sinks
from lithify.cli.records.explained import explained, explained_target
from lithify.store.driver import new_id
from lithify.store.errors import LithifyError
from tests.cli.conftest import Lithify, lines

COUNT = 60
DICE = random.Random(5)
ROWS = [{"key": f"k{n}", "value": f"{n} {DICE.randbytes(30).hex()}"} for n in range(COUNT)]
TEXT = lines(*ROWS).encode()
CASES = 25


def as_parquet(compression: str) -> Callable[[bytes], bytes]:
    def make(_: bytes) -> bytes:
        file = io.BytesIO()
        columns = {name: [row[name].encode() for row in ROWS] for name in ("key", "value")}
        headers = pa.array(
            [[{"key": "h", "value": b"1"}]] * COUNT, pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
        )
        table = pa.table({**columns, "timestamp_ms": list(range(COUNT)), "headers": headers})
        pq.write_table(table, file, row_group_size=25, compression=compression, write_page_checksum=True)
        return file.getvalue()

    return make


FORMATS: dict[str, Callable[[bytes], bytes]] = {
    "jsonl.gz": gzip.compress,
    "jsonl.bz2": bz2.compress,
    "jsonl.xz": lzma.compress,
    "jsonl.zst": lambda body: pa.compress(body, "zstd", asbytes=True),
    "none.parquet": as_parquet("none"),
    "zstd.parquet": as_parquet("zstd"),
    "snappy.parquet": as_parquet("snappy"),
}


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=")
    return lithify


def values(lithify: Lithify) -> Counter[str]:
    return Counter(line["value"] for line in lithify.records("read", "users"))


def append(lithify: Lithify, path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    told = lithify("append", "users", "--from", str(path), "--batch-size", "10", "--json", *flags)
    if told.exit_code == 0:
        return 0, json.loads(told.stdout)
    (line,) = told.stderr.splitlines()
    said = json.loads(line)["error"]
    assert said["exit_code"] == told.exit_code
    return told.exit_code, {"appended": 0, "skip": None} | said  # an import that could not begin says nothing of it


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_cut_anywhere_it_goes_on_exactly(users: Lithify, tmp_path: Path, name: str) -> None:
    """Tried on bulk.py, and caught: an empty file taken for one without records; what comes of a format's reader
    before its first rows not explained."""
    path, body = tmp_path / name, FORMATS[name](TEXT)
    for at in range(0, len(body), max(1, len(body) // CASES)):
        path.write_bytes(body[:at])
        users = Lithify(f"memory://{new_id()}")
        users.ok("topic", "create", "users", "--config", "cleanup.policy=")
        code, said = append(users, path)
        assert (code, said.get("kind")) == (2, "InvalidRequest"), (at, said)
        assert str(path) in said["message"]
        there = values(users)
        assert said["appended"] == there.total()
        assert said["skip"] == (there.total() or None)
        path.write_bytes(body)
        more = ("--source-id", said["source_id"], "--skip", str(said["skip"])) if said["skip"] else ()
        users.ok("append", "users", "--from", str(path), "--batch-size", "7", *more)
        assert values(users) == Counter(row["value"] for row in ROWS), at


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_flipped_bit_anywhere_is_told_or_harmless(name: str, tmp_path: Path) -> None:
    """Tried on bulk.py, and caught: checksums of Parquet's pages not asked for; rows not counted at the end."""
    path, body = tmp_path / name, FORMATS[name](TEXT)
    dice = random.Random(name)
    for _ in range(2 * CASES):
        at = dice.randrange(len(body))
        path.write_bytes(body[:at] + bytes([body[at] ^ 1 << dice.randrange(8)]) + body[at + 1 :])
        users = Lithify(f"memory://{new_id()}")
        users.ok("topic", "create", "users", "--config", "cleanup.policy=")
        code, said = append(users, path)
        there = values(users)
        assert code in (0, 2), (at, said)
        assert said["appended"] == there.total()
        if code:
            assert said["kind"] == "InvalidRequest"
            assert said["skip"] == (there.total() or None)
        elif name != "jsonl.zst":  # whose frames need not have a checksum
            assert there == Counter(row["value"] for row in ROWS), at


STRANGE = type("Strange", (Exception,), {})
DECODERS = [
    *(EOFError(), zipfile.BadZipFile(), lzma.LZMAError(), OSError("x"), UnicodeDecodeError("utf-8", b"x", 0, 1, "x")),
    *(pa.ArrowInvalid("x"), pa.ArrowKeyError("x"), pa.ArrowNotImplementedError("x"), pa.ArrowMemoryError("x")),
    *(NotImplementedError(), IndexError(), OverflowError(), KeyError("x"), RuntimeError("encrypted"), ValueError("x")),
]
AWAY = [aiohttp.ClientPayloadError(), aiohttp.ServerDisconnectedError(), TimeoutError(), FSTimeoutError()]
AWAY += [ConnectionResetError(), BrokenPipeError(), OSError(errno.EIO, "x"), STRANGE("x")]
AWAY += [EndpointConnectionError(endpoint_url="http://127.0.0.1"), TimeoutError(errno.ETIMEDOUT, "x")]
MISTAKES = [AssertionError(), TypeError("x"), AttributeError("x"), NameError("x")]
OTHERS = [FileNotFoundError(), PermissionError(), IsADirectoryError(), MemoryError()]


class Failing(io.BytesIO):
    """Raises, once 15 lines were read."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(b"".join(TEXT.splitlines(keepends=True)[:15]))
        self._error = error

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        found = super().read1(size)
        if not found:
            raise self._error
        return found


@pytest.mark.parametrize("error", [*DECODERS, *AWAY, *MISTAKES, *OTHERS], ids=lambda error: type(error).__name__)
def test_whatever_its_reading_raises(users: Lithify, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried on cli/records/bulk.py, and caught: errors of others let through; a lost connection taken for damage."""

    class System:
        def open(self, *_: Any, **__: Any) -> Any:
            return Failing(error)

        def info(self, *_: Any) -> dict[str, Any]:
            return {"size": 1, "mtime": 1}

    assert sinks.open_sink, "it is loaded: while `file_system` is another, it would take that for good"
    for module in (bulk, identity):
        monkeypatch.setattr(module, "file_system", lambda url, options: (System(), "in.jsonl"))
    code, said = append(users, Path("in.jsonl"))
    assert said["appended"] == said["skip"] == values(users).total() == 10
    assert "records 11 to" not in said["message"]
    if error in DECODERS:
        assert (code, said["kind"]) == (2, "InvalidRequest")
    elif error in AWAY:
        assert (code, said["kind"]) == (7, "Unavailable")
    elif error in MISTAKES:
        assert (code, said["kind"], said["retryable"]) == (70, "Unexpected", False)
    else:
        assert code in (2, 3, 7)


def test_the_exceptions_of_python_are_all_explained() -> None:
    known = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    for kind in known:
        if issubclass(kind, Warning | StopIteration | StopAsyncIteration) or kind.__name__.endswith("Group"):
            continue
        error = kind("utf-8", b"x", 0, 1, "x") if issubclass(kind, UnicodeDecodeError) else kind.__new__(kind)
        with pytest.raises(LithifyError, match=r"in\.jsonl"), explained("in.jsonl"):
            raise error
        with pytest.raises(LithifyError, match=r"in\.jsonl") as told, explained_target("in.jsonl"):
            raise error
        assert "fetch it again" not in str(told.value)


LAYOUTS = [pa.binary(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """First row and number of rows of each batch. An append takes little more than a batch may have."""
    from lithify.cli.records.imports import Import

    made: list[tuple[int, int]] = []
    real = Import.append

    def append(self: Import, records: Any, first: int, *, last: bool) -> None:
        made.append((first, records.num_rows if isinstance(records, pa.Table) else len(records)))
        real(self, records, first, last=last)

    monkeypatch.setattr(Import, "append", append)
    monkeypatch.setattr(bulk, "BATCH_BYTES_MAX", 1_000)
    monkeypatch.setattr("lithify.log.intake.APPEND_BYTES_MAX", 1_300)
    return made


def laid_out(texts: list[str], kind: pa.DataType) -> Any:
    plain = pa.array(texts)
    return plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)


def of_sizes(sizes: list[int]) -> list[dict[str, str]]:
    return [{"key": f"{n:03}", "value": "v" * (size - 3)} for n, size in enumerate(sizes)]


@pytest.mark.slow
def test_batches_are_cut_by_bytes_and_by_the_source_alone(cuts: list[tuple[int, int]], tmp_path: Path) -> None:
    """Tried on bulk.py and cli/appends.py, and caught: a batch that takes the row that is too much for it; the
    bytes of the batch before counted in; cuts where Parquet's row groups end; bytes as they lie in memory."""
    dice = random.Random(3)
    sizes = [dice.choice([3, 10, 40]) for _ in range(50)] + [dice.choice([3, 600, 1_000, 1_200]) for _ in range(40)]
    expected, held, first = list[tuple[int, int]](), 0, 0
    for n, size in enumerate([*sizes, 10_000]):
        if n > first and (held + size > 1_000 or n - first == 20):
            expected.append((first + 1, n - first))
            first, held = n, 0
        held += size
    rows = of_sizes(sizes)
    sources = {
        "in.jsonl": None,
        **{f"{n}-{group}.parquet": (kind, group) for n, kind in enumerate(LAYOUTS) for group in (7, 200)},
    }
    for name, shape in sources.items():
        if shape is None:
            (tmp_path / name).write_text(lines(*rows))
        else:
            texts = {key: pa.array([row[key] for row in rows]) for key in ("key", "value")}
            table = pa.table(
                {
                    key: text.dictionary_encode() if pa.types.is_dictionary(shape[0]) else text.cast(shape[0])
                    for key, text in texts.items()
                }
            )
            pq.write_table(table, tmp_path / name, row_group_size=shape[1])
        for skip in (0, expected[3][0] - 1):
            cuts.clear()
            users = Lithify(f"memory://{new_id()}")
            users.ok("topic", "create", "users", "--config", "cleanup.policy=")
            users.ok("append", "users", "--from", str(tmp_path / name), "--batch-size", "20", "--skip", str(skip))
            assert cuts == [cut for cut in expected if cut[0] > skip], name
            assert values(users) == Counter(row["value"] for row in rows[skip:])


def test_an_export_of_large_values_can_be_appended(
    cuts: list[tuple[int, int]], lithify: Lithify, tmp_path: Path
) -> None:
    """At the default batch size: the log holds ten times what one append takes."""
    for topic in ("users", "copy"):
        lithify.ok("topic", "create", topic, "--config", "cleanup.policy=")
    rows = of_sizes([400] * 30)
    lithify.ok("append", "users", input=lines(*rows))
    for name in ("out.jsonl", "out.parquet"):
        lithify.ok("export", "users", "--to", str(tmp_path / name))
        cuts.clear()
        assert lithify.json("append", "copy", "--from", str(tmp_path / name))["appended"] == 30
        assert cuts == [(first, 2) for first in range(1, 31, 2)]
