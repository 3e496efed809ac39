"""What a source may be: compressed in parts, a pipe, a line without an end; and what is refused by its name."""

import gzip
import io
import lzma
import os
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import fsspec.utils
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.cli.records import bulk
from lithify.cli.records.formats import check_format
from lithify.store.errors import InvalidRequest
from tests.cli.conftest import Lithify
from tests.cli.test_damaged_sources import COUNT, FORMATS, ROWS, TEXT, append, values


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=")
    return lithify


COMPRESSED = [name for name in FORMATS if not name.endswith(".parquet")]


@pytest.mark.parametrize("name", COMPRESSED)
def test_what_was_compressed_in_parts_and_joined_is_read_to_its_end(users: Lithify, tmp_path: Path, name: str) -> None:
    """As `cat a.gz b.gz` makes it, and compressors that use several processors."""
    path, parts = tmp_path / name, [*(line + b"\n" for line in TEXT.splitlines()), b""]
    path.write_bytes(b"".join(FORMATS[name](part) for part in parts))
    code, said = append(users, path)
    assert (code, said["appended"]) == (0, COUNT)
    assert values(users) == Counter(row["value"] for row in ROWS)


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("broken", ["cut", "bit", "garbage"])
def test_what_follows_the_first_part_is_not_left_out_in_silence(
    users: Lithify, tmp_path: Path, name: str, broken: str
) -> None:
    """Python's readers of bz2 and xz leave it out. Tried on cli/records/formats.py, and caught: these."""
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1  # at the end of a line, which a cut would tell
    one, other = (FORMATS[name](part) for part in (TEXT[:half], TEXT[half:]))
    other = {"cut": other[:3], "bit": bytes([other[0] ^ 1]) + other[1:], "garbage": b"garbage"}[broken]
    path = tmp_path / name
    path.write_bytes(one + other)
    code, said = append(users, path)
    assert (code, said.get("kind")) == (2, "InvalidRequest")
    assert said["appended"] == values(users).total()


def test_zeros_may_follow_xz(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.xz"
    path.write_bytes(lzma.compress(TEXT) + bytes(8))
    code, said = append(users, path)
    assert (code, said["appended"]) == (0, COUNT)


NAMED = ["lz4", "snappy", "zstd", "Z", "7z", "tar", "tgz", "br"]
OTHER_FORMATS = sorted({*fsspec.utils.compressions, *NAMED} - {"gz", "bz2", "xz", "zst"})


@pytest.mark.parametrize("suffix", OTHER_FORMATS)
def test_another_compression_is_refused_by_its_name(users: Lithify, tmp_path: Path, suffix: str) -> None:
    """Of a zip only the first file was read; an export was plain lines under that name."""
    path = tmp_path / f"in.jsonl.{suffix}"
    path.write_bytes(TEXT)
    for words in (("append", "users", "--from"), ("export", "users", "--to")):
        told = users.refused(*words, str(path), code=2, saying=f".{suffix.lower()} is neither read nor written")
        assert "Use plain lines of JSON, .gz, .bz2, .xz, .zst or .parquet" in told
    assert path.read_bytes() == TEXT


def test_of_a_url_its_query_is_no_part_of_the_name() -> None:
    for url in ("http://h/in.zip?x=1", "https://h/in.zip#x", "simplecache::HTTPS://h/in.zip?x=in.gz"):
        with pytest.raises(InvalidRequest, match="zip"):
            check_format(url)
    for url in (
        "/in.zip/x",
        "http://h/in.jsonl?x=in.zip",
        "zip://in.jsonl::/in.zip",
        "zip",
        "s3://b/zip",
    ):
        check_format(url)


def test_a_line_without_an_end_is_not_held(users: Lithify, tmp_path: Path) -> None:
    """Tried on cli/records/bulk.py, and caught: lines joined before they are measured."""
    users.ok("topic", "alter", "users", "--config", "max.message.bytes=1000")
    path = tmp_path / "in.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(TEXT)
        for _ in range(100):
            file.write(b" x" * (1 << 19))
    tracemalloc.start()
    code, said = append(users, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (code, said["kind"], said["appended"]) == (2, "InvalidRequest", COUNT)
    assert "line 61 is longer than 1056576 bytes" in said["message"]
    assert peak < 45 << 20


def test_the_longest_record_may_be_escaped_as_it_likes(users: Lithify, tmp_path: Path) -> None:
    users.ok("topic", "alter", "users", "--config", "max.message.bytes=1000000")
    path = tmp_path / "in.jsonl"
    path.write_text('{"key": "a", "value": "' + "\\u0000" * 999_999 + '"}')
    assert append(users, path)[1]["appended"] == 1


def test_a_byte_order_mark_is_passed_over(users: Lithify, tmp_path: Path) -> None:
    """As editors of Windows begin a file."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    code, said = append(users, path)
    assert (code, said["appended"]) == (0, COUNT)
    users.refused("append", "users", code=2, saying="line 2 is not a JSON", input=b"\n\xef\xbb\xbf" + TEXT)


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20])
def test_lines_do_not_depend_on_how_they_arrive(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_READ_BYTES", pieces)
    body = b"\n\na\r\n  \nbb\n\n\nccc"
    found = bulk.text_lines(bulk.Source(io.BytesIO(body), "in"), 10)
    assert list(found) == [(3, b"a\r"), (5, b"bb"), (8, b"ccc")]


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_a_pipe_is_read_as_it_comes(users: Lithify, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    body = gzip.compress(TEXT) if name.endswith(".gz") else TEXT
    feeding = threading.Thread(target=path.write_bytes, args=[body])
    feeding.start()
    told = append(users, path)
    feeding.join()
    assert told[1]["appended"] == COUNT


def test_parquet_is_not_read_from_a_pipe(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    os.mkfifo(path)
    users.refused("append", "users", "--from", str(path), code=2, saying="is a pipe, and Parquet cannot be read")


def test_more_passed_over_than_there_is_says_how_much_there_was(users: Lithify, tmp_path: Path) -> None:
    for name in ("in.jsonl", "none.parquet"):
        path = tmp_path / name
        path.write_bytes(FORMATS.get(name, bytes)(TEXT))
        told = users.ok("append", "users", "--from", str(path), "--skip", str(10**22))
        assert "the first 60 were skipped (the source has no more)" in told
        assert users.json("append", "users", "--from", str(path), "--skip", str(10**22))["passed_over"] == COUNT


def test_a_row_of_parquet_is_named_by_its_number_in_the_file(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"key": ["a"] * 5, "value": ["1"] * 5, "timestamp_ms": [1, 1, 1, 1, -1]}), path)
    told = users.refused("append", "users", "--from", str(path), "--batch-size", "3", code=2, saying="(row 5) has")
    assert "(records 4 to 5): users: 1 of 2 records (row 5) has a timestamp_ms before 1970. None of this" in told
    assert "appended. 3 records were" in told
