"""CSV, JSON and Parquet of ordinary tables: columns become keys, values, times and tombstones."""

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Lithify, lines

TIME_MS = 1_767_225_600_000
ROWS: list[dict[str, Any]] = [
    {"id": "1", "name": "ada", "plan": "pro", "at": "2026-01-01T00:00:00Z", "op": "c"},
    {"id": "2", "name": "bela", "plan": 'team, or "free"', "at": "2026-01-01 00:00:01.5", "op": "u"},
    {"id": "1", "name": "ada", "plan": "", "at": str(TIME_MS + 2_000), "op": "d"},
]
CSV = "\n".join(
    [
        "id,name,plan,at,op",
        "1,ada,pro,2026-01-01T00:00:00Z,c",
        '2,bela,"team, or ""free""",2026-01-01 00:00:01.5,u',
        '1,ada,"",1767225602000,d\n',
    ]
)
WORDS = ("--key-column", "id", "--timestamp-column", "at", "--delete-column", "op")


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--config", "retention.ms=-1")
    return lithify


def write(path: Path) -> Path:
    match path.suffix:
        case ".csv":
            path.write_text(CSV)
        case ".tsv":
            path.write_text("\n".join("\t".join(row) for row in [list(ROWS[0]), *(list(r.values()) for r in ROWS)]))
        case ".jsonl":
            path.write_text(lines(*ROWS))
        case _:
            pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def found(users: Lithify) -> list[tuple[Any, ...]]:
    return [(each["key"], each["value"], each["timestamp_ms"]) for each in users.records("read", "users")]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_one_column_is_the_value(users: Lithify, tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"in.{suffix}")
    users.ok("append", "users", "--from", str(path), *WORDS, "--value-column", "plan")
    assert found(users) == [
        ("1", "pro", TIME_MS),
        ("2", 'team, or "free"', TIME_MS + 1_500),
        ("1", None, TIME_MS + 2_000),
    ]
    assert users.json("append", "users", "--from", str(path), *WORDS, "--value-column", "plan")["appended"] == 0


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_several_columns_are_an_object_and_without_any_the_whole_row(
    users: Lithify, tmp_path: Path, suffix: str
) -> None:
    path = write(tmp_path / f"in.{suffix}")
    users.ok("append", "users", "--from", str(path), *WORDS, "--value-column", "name", "--value-column", "plan")
    users.ok("append", "users", "--from", str(path), *WORDS, "--source-id", "whole")
    users.ok("append", "users", "--from", str(path), "--key-column", "id", "--source-id", "untimed")
    values = [None if value is None else json.loads(value) for _, value, _ in found(users)]
    assert values[:3] == [{name: row[name] for name in ("name", "plan")} for row in ROWS[:2]] + [None]
    assert values[3:6] == [{name: row[name] for name in row if name != "op"} for row in ROWS[:2]] + [None]
    assert values[6:] == ROWS


def test_tables_with_types(users: Lithify, tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "id": pa.array([7, 8]),
        "price": pa.array([Decimal("1.50"), None]),
        "raw": pa.array([b"\xff", b""]),
        "tags": pa.array([["a"], []]),
        "gone": pa.array([False, True]),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
    }
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table(columns), path)
    words = ("append", "users", "--from", str(path), "--key-column", "id", "--timestamp-column", "at")
    users.ok(*words, "--value-column", "price", "--source-id", "1")
    users.ok(*words, "--value-column", "kind", "--delete-column", "gone", "--source-id", "2")
    users.ok(*words, "--value-column", "raw", "--source-id", "3")
    users.ok(*words, "--source-id", "4")
    records = users.records("read", "users")
    assert [each["key"] for each in records[:2]] == ["7", "8"]
    assert [each["value"] for each in records[:4]] == ["1.50", None, "x", None]
    assert [records[4]["value_base64"], records[5]["value"]] == ["/w==", ""]
    whole = {"id": 7, "price": "1.50", "raw": "/w==", "tags": ["a"], "gone": False, "kind": "x"}
    assert json.loads(records[6]["value"]) == whole | {"at": "2026-01-01T00:00:00Z"}
    assert records[0]["timestamp_ms"] == TIME_MS


@pytest.mark.parametrize(
    ("text", "words", "saying"),
    [
        (CSV, (), "in.csv has the column 'id': say which column is the key with --key-column"),
        ("key,other\n", (), "has the column 'other'"),
        ("key\n", (), "has no column 'value'"),
        (CSV, ("--key-column", "nr"), "in.csv has no column 'nr' (--key-column); it has id, name, plan, at, op"),
        (CSV, ("--key-column", "id", "--timestamp-column", "t"), "has no column 't' (--timestamp-column); it has id"),
        (CSV, ("--key-column", "id", "--delete-column", "d"), "has no column 'd' (--delete-column); it has id"),
        (CSV, ("--key-column", "id", "--value-column", "v"), "has no column 'v' (--value-column); it has id"),
        (CSV, ("--key-column", "id", "--delete-column", "name"), "row 1 has a deletion mark that is neither"),
        (CSV, ("--key-column", "id", "--timestamp-column", "name"), "row 1 has a time that is neither"),
        ("id,v\n1,2\n3\n", ("--key-column", "id"), "row 2 has 1 cell, but the first line names 2"),
        ("id,id\n", ("--key-column", "id"), "must name the columns, each once"),
        ("", ("--key-column", "id"), "must name the columns"),
    ],
)
def test_what_is_not_such_a_table(
    users: Lithify, tmp_path: Path, text: str, words: tuple[str, ...], saying: str
) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text)
    told = users.refused("append", "users", "--from", str(path), *words, code=2, saying=saying)
    assert "bela" not in told
    assert users.records("read", "users") == []


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_first_line_in_another_encoding_is_told_so(users: Lithify, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("id,stra\u00dfe\n1,x\n".encode(encoding))
    told = users.refused("append", "users", "--from", str(path), "--key-column", "id", code=2, saying="is not UTF-8")
    assert "names" not in told


def test_a_compressed_file_without_its_ending_is_told_so(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(gzip.compress(CSV.encode()))
    words = ("append", "users", "--from", str(path), "--key-column", "id")
    users.refused(*words, code=2, saying="it is compressed with gzip; give the file a name that ends in .gz")


def test_bad_rows_of_json_are_named(users: Lithify) -> None:
    words = ("append", "users", "--key-column", "id", "--value-column", "v")
    users.refused(
        *words, code=2, saying="line 2 has no field 'v' (--value-column)", input='{"id": 1, "v": 2}\n{"id": 1}\n'
    )
    users.refused(*words, code=2, saying="line 1 is not a JSON object", input="[1]\n")


def test_a_byte_order_mark_is_no_part_of_a_name(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    users.ok("append", "users", "--from", str(path), *WORDS)
    assert len(found(users)) == 3


def test_a_large_table_is_cut_and_resumed(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,v\n" + "".join(f"{n},v{n}\n" for n in range(2_500)))
    words = ("append", "users", "--from", str(path), "--key-column", "id", "--value-column", "v", "--batch-size", "99")
    assert users.json(*words, "--skip", "100")["appended"] == 2_400
    again = users.json(*words, "--skip", "100")
    assert (again["appended"], again["already_there"], again["passed_over"]) == (0, 2_400, 100)
    assert [key for key, _, _ in found(users)][::800] == ["100", "900", "1700"]


def test_csv_of_records_there_and_back(users: Lithify, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"key": "a", "value": 'one, "two"\nthree', "timestamp_ms": TIME_MS, "headers": {"h": "x"}},
        {"key": None, "value": "", "timestamp_ms": TIME_MS},
        {"key": "", "value": None, "timestamp_ms": TIME_MS + 1},
    ]
    users.ok("append", "users", input=lines(*rows))
    for suffix in ("csv", "tsv", "csv.zst", "csv.gz"):
        path = tmp_path / f"out.{suffix}"
        users.ok("export", "users", "--to", str(path))
        users.ok("topic", "create", f"copy.{suffix}", "--config", "retention.ms=-1")
        users.ok("append", f"copy.{suffix}", "--from", str(path))
        assert users.records("read", f"copy.{suffix}") == users.records("read", "users")
    assert users.ok("export", "users", "--to", "-", "--format", "csv").startswith('"key","value","timestamp_ms"')
    users.ok("append", "users", input='{"value_base64": "/w=="}\n')
    users.refused("export", "users", "--to", str(tmp_path / "x.csv"), code=2, saying="bytes that are not UTF-8")
    assert not (tmp_path / "x.csv").exists()


def test_an_unknown_extension_is_refused(users: Lithify, tmp_path: Path) -> None:
    for name in ("out.xlsx", "out.avro", "out.txt.gz"):
        users.refused("export", "users", "--to", str(tmp_path / name), code=2, saying="is not a known format")
        users.refused("append", "users", "--from", str(tmp_path / name), code=2, saying="say which it is with --format")
        assert not (tmp_path / name).exists()
    users.ok("export", "users", "--to", str(tmp_path / "out.txt"), "--format", "json")
    users.ok("append", "users", "--from", str(tmp_path / "out.txt"), "--format", "json")
    said = "ends in .csv, but --format says parquet: name it .parquet, or leave out --format"
    users.refused("export", "users", "--to", str(tmp_path / "out.csv"), "--format", "parquet", code=2, saying=said)
    users.refused("append", "users", "--format", "parquet", code=2, saying="Parquet cannot be read from a pipe")
    users.refused("export", "users", "--to", "-", "--format", "parquet", code=2, saying="name a file")


def test_several_sources_and_patterns(users: Lithify, tmp_path: Path) -> None:
    for n in (2, 1, 3):
        (tmp_path / f"part-{n}.jsonl").write_text(lines({"key": "k", "value": str(n)}))
    (tmp_path / "odd[1].jsonl").write_text(lines({"key": "k", "value": "odd"}))
    pattern, third = str(tmp_path / "part-*.jsonl"), str(tmp_path / "part-3.jsonl")
    told = users.json("append", "users", "--from", third, "--from", pattern)
    assert (told["appended"], [each["appended"] for each in told["sources"]]) == (3, [1, 1, 1])
    assert [value for _, value, _ in found(users)] == ["3", "1", "2"], "each once, in the order given"
    text = users.ok("append", "users", "--from", pattern, "--from", str(tmp_path / "odd[1].jsonl"))
    assert text.splitlines()[-1] == "1 record of 4 sources appended to users"
    users.refused("append", "users", "--from", str(tmp_path / "no-*"), code=3, saying="no file matches")
    users.refused("append", "users", "--from", pattern, "--skip", "1", code=2, saying="are for one source")


def test_who_forgets_to_name_the_key_is_told_how(users: Lithify) -> None:
    saying = "say which field is the key with --key-column"
    users.refused("append", "users", code=2, saying=saying, input=lines(ROWS[0]))


def test_lines_with_a_delimiter_as_of_kcat(users: Lithify) -> None:
    users.ok("append", "users", "-K:", input="a:one:two\nplain\n:x\r\nb:\n")
    assert [(key, value) for key, value, _ in found(users)] == [
        *[("a", "one:two"), (None, "plain"), ("", "x"), ("b", "")],
    ]  # fmt: skip
    users.refused("append", "users", "-K:", "--format", "csv", code=2, saying="leave out columns and --format")
    users.refused("append", "users", "-K", "", code=2, saying="-K needs what is between")


@pytest.mark.parametrize(
    ("given", "line"),
    [("\\t", "a\t1\n"), ("\\x01", "a\x011\n"), ("\\\\", "a\\1\n"), ("\\q", "a\\q1\n"), ("\\t\\t", "a\t\t1\n")],
)
def test_a_delimiter_may_be_escaped_as_for_kcat(users: Lithify, given: str, line: str) -> None:
    users.ok("append", "users", "-K", given, input=line)
    (record,) = users.records("read", "users")
    assert (record["key"], record["value"]) == ("a", "1")
