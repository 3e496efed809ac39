"""`lithify append` that ends early says truly how far it came, whatever ended it, and goes on exactly."""

import bz2
import contextlib
import errno
import gzip
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.store.file import FileStore
from tests.cli.conftest import Lithify, lines
from tests.cli.test_process import Process

ROWS = [{"key": f"k{n}", "value": str(n)} for n in range(40)]


def there(lithify: Lithify) -> Counter[int]:
    return Counter(int(line["value"]) for line in lithify.records("read", "users"))


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact")
    return on_files


@pytest.fixture
def half_full(users: Lithify) -> Lithify:
    """Partition 1 takes one append more, and then none."""
    users.ok("append", "users", "--partition", "1", input=lines({"key": "first", "value": "99"}))
    users.ok("topic", "alter", "users", "--config", "l0.segments.max=2")
    return users


def make_room(lithify: Lithify) -> None:
    lithify.ok("topic", "alter", "users", "--unset", "l0.segments.max")


def test_where_one_partition_of_a_batch_is_in_and_another_is_not(half_full: Lithify) -> None:
    told = half_full("append", "users", "--batch-size", "20", "--json", input=lines(*ROWS))
    assert told.exit_code == 7
    said = json.loads(told.stderr)["error"]
    assert said["skip"] is None
    assert 20 < said["appended"] == there(half_full).total() - 1 < 40
    make_room(half_full)
    again = half_full.json("append", "users", "--source-id", said["source_id"], "--batch-size", "7", input=lines(*ROWS))
    assert (again["appended"], again["already_there"]) == (40 - said["appended"], said["appended"])
    assert there(half_full) == Counter([*range(40), 99])


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet", "in.jsonl.gz"])
def test_the_same_command_again_appends_what_is_missing(half_full: Lithify, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".parquet":
        pq.write_table(
            pa.Table.from_pylist([{"key": r["key"].encode(), "value": r["value"].encode()} for r in ROWS]), path
        )
    else:
        path.write_bytes(gzip.compress(lines(*ROWS).encode()) if path.suffix == ".gz" else lines(*ROWS).encode())
    command = ("append", "users", "--from", str(path), "--batch-size", "20")
    told = half_full.refused(*command, code=7, saying="run the same command again: it continues where it stopped")
    assert "(records 21 to 40)" in told
    make_room(half_full)
    half_full.ok(*command)
    assert there(half_full) == Counter([*range(40), 99])
    again = half_full.json(*command)
    assert (again["appended"], again["already_there"]) == (0, 40)
    assert "give another --source-id" in half_full.ok(*command)
    half_full.ok(*command, "--source-id", "once more")
    assert there(half_full).total() == 81


def test_another_content_under_the_same_name_is_another_import(users: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(lines(*ROWS[:20]))
    users.ok("append", "users", "--from", str(path))
    path.write_text(lines(*ROWS[20:]))
    assert users.json("append", "users", "--from", str(path))["appended"] == 20
    assert there(users) == Counter(range(40))


BROKEN = {
    "in.jsonl": "line 31 is not a JSON object",
    "bytes.jsonl": "line 31 has bytes that are not UTF-8",
    "in.jsonl.gz": "is damaged, or cut short",
    "in.jsonl.bz2": "is damaged, or cut short",
    "in.jsonl.xz": "is damaged, or cut short",
    "in.parquet": "is not a Parquet file, or a damaged one",
}


def broken(path: Path) -> None:
    """Its first 30 rows are whole."""
    text = lines(*ROWS).encode()
    if path.name == "bytes.jsonl":
        path.write_bytes(b"\n".join(text.split(b"\n")[:30]) + b'\n{"key": "k", "value": "\xff"}\n')
    elif path.suffix == ".jsonl":
        path.write_bytes(b"\n".join(text.split(b"\n")[:30]) + b"\n{no\n")
    elif path.suffix == ".parquet":
        table = pa.table({"key": [str(n).encode() * 50 for n in range(40)], "value": [os.urandom(400)] * 40})
        pq.write_table(table, path, row_group_size=10, compression="none", use_dictionary=False, write_statistics=False)
        body = path.read_bytes()
        path.write_bytes(body[:4] + body[4 : len(body) * 8 // 10].ljust(len(body) - 4 - 1_500, b"\xff") + body[-1_500:])
    else:
        rows = lines(*({"key": os.urandom(400).hex(), "value": str(n)} for n in range(40))).encode()
        squeeze: Any = {".gz": gzip, ".bz2": bz2}.get(path.suffix)
        if squeeze is None:
            import lzma as squeeze
        body = squeeze.compress(rows)
        path.write_bytes(body[:-400])


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_breaks_off(users: Lithify, tmp_path: Path, name: str) -> None:
    broken(tmp_path / name)
    told = users("append", "users", "--from", str(tmp_path / name), "--batch-size", "10", "--json")
    assert told.exit_code == 2, told.stderr
    said = json.loads(told.stderr)["error"]
    assert BROKEN[name] in said["message"]
    found = len(users.records("read", "users"))
    assert said["appended"] == found
    assert said["skip"] == (found or None)  # nothing appended: nothing was looked at, and an earlier run may be ahead
    assert found == {".jsonl": 30, ".parquet": 30}.get(Path(name).suffix, found)


def test_a_full_disk(users: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    create, count = FileStore.create, iter(range(1_000))

    def full(store: FileStore, key: str, body: bytes, frees: bool = False) -> Any:
        if next(count) >= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(store, key, body, frees)

    monkeypatch.setattr(FileStore, "create", full)
    told = users("append", "users", "--batch-size", "20", "--json", input=lines(*ROWS))
    said = json.loads(told.stderr)["error"]
    monkeypatch.undo()
    assert said["appended"] <= there(users).total() <= said["appended"] + said["unknown"]
    users.ok("append", "users", "--source-id", said["source_id"], input=lines(*ROWS))
    assert there(users) == Counter(range(40))


def test_an_interruption_in_the_middle_of_an_append(users: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    create, count = FileStore.create, iter(range(1_000))

    def interrupted(store: FileStore, key: str, body: bytes, frees: bool = False) -> Any:
        answer = create(store, key, body, frees)
        if next(count) == 2:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(FileStore, "create", interrupted)
    told = users("append", "users", "--batch-size", "20", input=lines(*ROWS))
    monkeypatch.undo()
    assert told.exit_code == 130
    (found,) = re.findall(r"standard input \(records 21 to 40\): interrupted\. (.*)", told.stderr)
    said = re.fullmatch(
        r"20 records were appended, (\d+) possibly appended; .* again with --source-id (stdin-\S+)", found
    )
    assert said is not None
    users.ok("append", "users", "--source-id", said[2], input=lines(*ROWS))
    assert there(users) == Counter(range(40))


def test_a_file_that_was_interrupted_goes_on_by_the_same_command(
    users: Lithify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, count = FileStore.create, iter(range(1_000))

    def interrupted(store: FileStore, key: str, body: bytes, frees: bool = False) -> Any:
        if next(count) == 2:
            raise KeyboardInterrupt
        return create(store, key, body, frees)

    path = tmp_path / "in.jsonl"
    path.write_text(lines(*ROWS))
    command = ("append", "users", "--from", str(path), "--batch-size", "20")
    monkeypatch.setattr(FileStore, "create", interrupted)
    told = users(*command)
    monkeypatch.undo()
    assert told.exit_code == 130
    assert "interrupted" in told.stderr
    assert told.stderr.strip().endswith("; run the same command again: it continues where it stopped")
    assert "--source-id" not in told.stderr
    users.ok(*command)
    assert there(users) == Counter(range(40))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_meets_a_destructor_is_not_lost(
    users: Lithify, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops what is raised there, or in a callback of a library, and goes on."""
    create, count = FileStore.create, iter(range(1_000))

    class Dying:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)

    def told(store: FileStore, key: str, body: bytes, frees: bool = False) -> Any:
        if next(count) == 1:
            Dying()
        return create(store, key, body, frees)

    monkeypatch.setattr(FileStore, "create", told)
    ended = users("append", "users", "--batch-size", "10", input=lines(*ROWS))
    monkeypatch.undo()
    assert ended.exit_code == code
    assert re.search(r"10 records were appended; .* again with --source-id stdin-\S+ --skip 10\b", ended.stderr)
    assert there(users) == Counter(range(10))


def fed(users: Lithify, *flags: str) -> Process:
    """A process whose first two batches are in, and that waits for more."""
    process = Process(users.url, "append", "users", "--batch-size", "10", *flags, feeds=True)
    assert process.of.stdin is not None
    process.of.stdin.write(lines(*ROWS[:25]))
    process.of.stdin.flush()
    while there(users).total() < 20:
        assert process.of.poll() is None
    return process


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_to_end_it_appends_what_came_and_says_how_far(users: Lithify, number: signal.Signals, code: int) -> None:
    """Nobody else has the records that a pipe gave: those of the batch that waited for more are appended, too."""
    with fed(users) as process:
        process.of.send_signal(number)
        assert process.end() == code
    (told,) = filter(None, process.said)
    how = r"25 records were appended; to append .* again with --source-id (stdin-\S+) --skip 25"
    said = re.fullmatch(rf"lithify: standard input: .*\. {how}", told)
    assert said is not None
    assert there(users) == Counter(range(25))
    users.ok("append", "users", "--source-id", said[1], "--skip", "25", input=lines(*ROWS))
    assert there(users) == Counter(range(40))


@pytest.mark.slow
def test_killed_it_goes_on_exactly(users: Lithify) -> None:
    with fed(users, "--source-id", "mine") as process:
        process.of.kill()
        process.of.wait()
    answer = users.json("append", "users", "--source-id", "mine", "--batch-size", "7", input=lines(*ROWS))
    assert (answer["appended"], answer["already_there"]) == (20, 20)
    assert there(users) == Counter(range(40))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_to_end_amid_a_pipe_of_csv_it_ends(users: Lithify, number: signal.Signals, code: int) -> None:
    rows, told = "".join(f"k{n},{'v' * 200}\n" for n in range(1_000)), False
    with Process(users.url, "append", "users", "--format", "csv", "--batch-size", "1000", feeds=True) as process:
        assert process.of.stdin is not None
        process.of.stdin.write("key,value\n")
        with contextlib.suppress(BrokenPipeError):
            for block in range(2_000):
                process.of.stdin.write(rows)
                if not told and block % 20 == 0 and users.ok("read", "users", "--limit", "1"):
                    process.of.send_signal(number)
                    told = True
        assert process.end() == code
    assert "records were appended" in "".join(process.said)
