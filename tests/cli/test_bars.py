"""Progress bars of compactions are drawn from events, and from nothing else; those of imports know their total."""

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.progress import Progress

import lithify
from lithify.cli.amounts import Amount
from lithify.cli.bars import Bars
from lithify.cli.output import Output
from lithify.store.driver import new_id
from tests.cli.conftest import Lithify, changes


class Drawn:
    """Keeps what it was told to draw."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, list[int], int]] = []  # what it is called, how far it was, of how much

    def add_task(self, text: str, total: int) -> int:
        self.bars.append((text, [], total))
        return len(self.bars) - 1

    def update(self, bar: int, completed: int, **_: Any) -> None:
        self.bars[bar][1].append(completed)


def test_each_job_has_a_bar_that_fills() -> None:
    warehouse = lithify.open(f"memory://{new_id()}")
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "compaction.output.bytes": "16384"}
    part = warehouse.create_topic("users", 1, config).partition(0)
    dice = random.Random(1)
    for start in range(0, 2_000, 500):
        part.append([lithify.Record(key=b"%04d" % n, value=dice.randbytes(64)) for n in range(start, start + 500)])
    drawn = Drawn()
    report = lithify.Compactor(warehouse, "local", events=Bars(drawn)).run_once()
    (job,) = report.jobs
    ((text, steps, ranges),) = drawn.bars
    assert text == f"{job.kind} {job.id}"
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert steps[-1] == ranges > 1


class Told:
    """A ticker that keeps what it is told."""

    def __init__(self) -> None:
        self.reached_to: list[tuple[int, int]] = []
        self.advanced = 0

    def __enter__(self) -> "Told":
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, advance: int, /) -> None:
        self.advanced += advance

    def reached(self, done: int, total: int) -> None:
        self.reached_to.append((done, total))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(Output, "progress", lambda *_, **__: told)
    return told


ROWS = pa.table({"key": [f"k{n}" for n in range(50)], "value": ["v" * 40_000] * 50})


def sources(folder: Path) -> dict[str, tuple[Path, int]]:
    """Files of the same rows, with what they have: bytes, or rows."""
    lines = "".join(f'{{"key": "{key}", "value": "{value}"}}\n' for key, value in zip(*ROWS.columns, strict=True))
    (folder / "rows.jsonl").write_text(lines)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pyarrow.csv.write_csv(ROWS, folder / "rows.csv")
    pq.write_table(ROWS, folder / "rows.parquet")
    sizes = {name: (folder / name).stat().st_size for name in ("rows.jsonl", "rows.jsonl.gz", "rows.csv")}
    return {name: (folder / name, sizes.get(name, 50)) for name in [*sizes, "rows.parquet"]}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.csv", "rows.parquet"])
def test_an_import_knows_how_much_there_is(lithify: Lithify, told: Told, tmp_path: Path, name: str) -> None:
    lithify.ok("topic", "create", "users")
    told.reached_to.clear()
    path, total = sources(tmp_path)[name]
    lithify.ok("append", "users", "--from", str(path), "--batch-size", "20")
    assert len(told.reached_to) == 3
    assert told.reached_to == sorted(told.reached_to)
    assert told.reached_to[0][0] > 0
    assert told.reached_to[-1] == (total, total)
    assert told.advanced == 0


def test_what_comes_through_a_pipe_has_no_total(lithify: Lithify, told: Told) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input=changes(30))
    assert told.reached_to == []
    assert told.advanced == 30


def test_a_bar_without_a_total_shows_the_count_alone() -> None:
    """Not "0/?"."""

    def shown(completed: float, total: float | None, *, of_bytes: bool) -> str:
        drawn = Progress(disable=True)
        drawn.add_task("reading", completed=int(completed), total=total)
        return Amount(of_bytes=of_bytes).render(drawn.tasks[0]).plain

    assert shown(0, None, of_bytes=False) == "0"
    assert shown(1_234, None, of_bytes=False) == "1,234"
    assert shown(1_234, 20_000, of_bytes=False) == "1,234 of 20,000"
    assert shown(1_536, None, of_bytes=True) == "1.5 KiB"
    assert shown(1_536, 3 << 20, of_bytes=True) == "1.5 KiB of 3.0 MiB"
