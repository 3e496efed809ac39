"""The benchmarks work: a tiny run of the parts that need no rivals, and what is made of figures."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

import lithify
from benchmarks.cluster import OnCluster
from benchmarks.convergence import Convergence
from benchmarks.data_source import CARRIED, KEYS, OURS, PARQUET, SHUFFLED, SORTED, OnSpark, Times
from benchmarks.deciding import Deciding
from benchmarks.far_picture import picture
from benchmarks.far_rows import FarRow, FarStore
from benchmarks.generate import TOPIC, Shape, distinct, one_run, tables, warehouse
from benchmarks.measure import Run
from benchmarks.producing import producing
from benchmarks.recording import Recording, recording
from benchmarks.report import show, write_readme
from benchmarks.results import Bar, Found, Results, bars
from benchmarks.scale import Point, slope

ROOT = Path(__file__).parent.parent


def run(wall_s: float, cpu_s: float, worker_mb: float = 100) -> Run:
    return Run(wall_s, cpu_s, worker_mb, worker_mb, {"recording_s": wall_s / 100, "bytes_out": 5e6})


def results() -> Results:
    whole, part = Shape(), Shape(rows=250_000)
    ours = Found(whole, [run(3, 5), run(6, 10), run(3, 5)])
    rival = Found(part, [run(2, 4), run(4, 9), run(2, 4)])
    points = [Point(n, n * 1000, n, n / 10, n / 5, 600 if n == 16 else 100, 1) for n in (1, 4, 16)]
    machine = {"processors": "2", "architecture": "z80", "python": "3.11", "pyarrow": "26", "pyspark": "4"}
    found = Results(machine=machine, contenders={"lithify_spark": ours, "slatedb_compaction": rival}, scale=points)
    return Results(machine=machine, contenders=found.contenders, scale=points, bars=bars(found))


def test_bars() -> None:
    found = {bar.what: bar for bar in results().bars}
    assert found["SlateDB's CPU time over ours"] == Bar("SlateDB's CPU time over ours", 3.2, at_least=3)
    assert found["SlateDB's CPU time over ours"].met
    assert found["recording progress, % of wall time"].measured == pytest.approx(1)
    assert not found["a worker's peak MB, 16 segments"].met
    assert found["exponent of rows in CPU time"].measured == pytest.approx(1)
    assert slope(results().scale[:2]) == pytest.approx(1)
    assert "wall time over DuckDB's" not in found


def test_bars_of_a_cluster() -> None:
    measured = OnCluster(ranges=4, range_s=2, one_s=9, two_s=5, task_s=0.12, ranges_explained=7, ranges_run=6)
    found = {bar.what: (bar.measured, bar.met) for bar in bars(Results(machine={}, cluster=measured))}
    assert found == {
        "two workers of a cluster over one": (pytest.approx(1.8), True),
        "s of scheduling per task on a cluster": (0.12, True),
        "scheduling, % of a range": (pytest.approx(6), False),
        "s of a range on a cluster": (2, True),
        "ranges that ran over those explained": (pytest.approx(6 / 7), False),
    }
    assert "6 ranges ran, 7 were explained" in show(Results(machine=results().machine, cluster=measured))


def test_bars_of_the_data_source() -> None:
    def times(*wall_s: float) -> Times:
        return Times(list(wall_s), list(wall_s))

    reads = {PARQUET: times(1, 2, 1), OURS: times(2, 5, 2), CARRIED: times(2, 4, 2), KEYS: times(1, 2, 2)}
    writes = {SORTED: (times(4), times(4)), SHUFFLED: (times(3), times(4))}
    found = Results(machine=results().machine, data_source=OnSpark(8_000_000, 4_000_000, reads, writes))
    assert {bar.what: (bar.measured, bar.met) for bar in bars(found)} == {
        "Spark: reading a topic over its Parquet files": (2, True),
        "Spark: reading a topic over carrying batches": (1, True),
        "Spark: one column of five over all": (0.5, True),
        "Spark: writing a topic over sorted Parquet": (1, True),
    }
    assert "| read 8 M rows: spark.read.parquet " in show(found)
    assert "| write 4 M rows, by key, after a shuffle: lithify " in show(found)


def test_the_readme_gets_the_tables_between_its_marks(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n")
    more = msgspec.structs.replace(
        results(), recording=[Recording(40, 2, 3, 4)], cluster=OnCluster(4, 2, 9, 5, 0.1, 4, 4)
    )
    for _ in range(2):
        write_readme(readme, more)
    text = readme.read_text()
    assert show(more) != show(results())
    assert text == f"before\n<!-- bench:begin -->\n{show(results())}\n<!-- bench:end -->\nafter\n"
    assert "**no**" in text
    readme.write_text("nothing here")
    with pytest.raises(SystemExit, match="no place"):
        write_readme(readme, results())


def test_the_data(tmp_path: Path) -> None:
    shape = Shape(segments=2, rows=500, keys=400, value_bytes=150)
    made = list(tables(shape))
    assert {len(key) for table in made for key in table["key"].to_pylist()} == {16, 17}
    assert {len(value) for table in made for value in table["value"].to_pylist()} == {150}
    assert made[0] == next(tables(shape)), "the same on every call"
    root = warehouse(tmp_path, shape)
    assert warehouse(tmp_path, shape) == root
    assert len(list(root.rglob("*.parquet"))) == 2
    each = msgspec.structs.replace(shape, keys=1_000)
    assert len({key for table in distinct(each) for key in table["key"].to_pylist()}) == 1_000
    part = lithify.open(one_run(tmp_path, each).as_uri()).topic(TOPIC).partition(0)
    assert (part.describe().l0, len(part.describe().runs), part.describe().rows) == ((), 1, 1_000)


def test_what_the_policy_is_held_to() -> None:
    well = Convergence("uniform, 9 keys", 5.9, 4.5, 8, 9, 6, 30, {"dirty": 3, "l0": 4}, 0, True)
    crowded = msgspec.structs.replace(well, workload="hot keys", write_amplification=7, runs_max=31)
    restless = msgspec.structs.replace(well, workload="fresh keys", settled=False)
    slow = Deciding("compact", 1_000, 200, 2, 11, 0.1, 0.3, 0.7, 800_000, 0.4, 1_600)
    machine = results().machine
    found = Results(machine=machine, convergence=[well, crowded, restless], deciding=[slow])
    held = {bar.what: (bar.measured, bar.met) for bar in bars(found)}
    assert held == {
        "write amplification, uniform updates": (5.9, True),
        "workloads that do not end, or pass a limit": (2, False),
        "ms of a decision, 1000 L0 segments and 200 runs": (11, False),
    }
    assert "| uniform, 9 keys | 5.90                | 4.5                | 8 of 9 | 6 of 30  | 7    | yes    |" in show(
        found
    )


def far_store() -> FarStore:
    return FarStore(
        [
            FarRow.of("append", "append of 100 records", "ms", ([0.01, 0.02, 0.03], [0.11, 0.14, 0.11])),
            FarRow.of("scan", "scan, one run", "s", ([2, 2], [3, 3])),
            FarRow.of("appends", "appends a second, 1 thread", "/s", ([50], [10])),
            FarRow.of("appends", "appends a second, 64 threads", "/s", ([60], [250])),
            FarRow.of("idle", "idle pass over 1000 partitions", "s", ([1], [4]), requests=1_001),
        ],
        ["DuckDB's S3 reading: no extension"],
    )


def test_what_a_far_store_is_held_to() -> None:
    found = Results(machine=results().machine, far=far_store())
    assert {bar.what: (bar.measured, bar.met) for bar in bars(found)} == {
        "round trips of: append of 100 records": (3, True),
        "far over near: scan, one run": (1.5, False),
        "seconds, far: idle pass over 1000 partitions": (4, True),
        "requests: idle pass over 1000 partitions": (1_001, False),
        "far: appends a second of 64 threads over those of one": (25, True),
    }
    told = show(found)
    assert "| append of 100 records                          | 20 ms | 110 ms | 5.50       | 3.0 " in told
    assert "Not measured: DuckDB's S3 reading: no extension." in told


def test_a_far_store_has_a_table_and_a_picture_of_its_own_in_the_readme(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("<!-- bench:begin -->\nkept\n<!-- bench:end -->\n<!-- far:begin -->\n<!-- far:end -->\n")
    write_readme(readme, Results(machine=results().machine, far=far_store()))
    text = readme.read_text()
    assert text.startswith("<!-- bench:begin -->\nkept\n<!-- bench:end -->\n<!-- far:begin -->\n![how long")
    drawn = (tmp_path / "docs/pictures/far-store.svg").read_text()
    assert drawn == picture(far_store())
    tree = ElementTree.fromstring(drawn)
    bars_drawn = list(tree.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(bars_drawn) == 2 + 2 * 3, "a legend, and two of each row that tells a time"


@pytest.mark.spark
@pytest.mark.soak
def test_a_quick_run(tmp_path: Path) -> None:
    report = tmp_path / "quick.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "lithify_spark,rewrite,requests,convergence"]
    command += ["--folder", str(tmp_path), "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| lithify, clean on Spark " in done.stdout
    found = json.loads(report.read_text())
    assert set(found["contenders"]) == {"lithify_spark", "rewrite"}
    counted = {bar["what"]: bar for bar in found["bars"]}
    for what in ("PUTs of a warm append", "GETs of a warm append", "GETs of an idle poll of a partition"):
        assert counted[what]["measured"] <= 2
    assert counted["manifest bytes per segment"]["measured"] <= 350
    assert counted["workloads that do not end, or pass a limit"]["measured"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["quick.json"], "the data are removed"


def test_what_recording_costs_is_told_and_does_not_grow_with_the_ranges() -> None:
    machine = {"processors": "2", "architecture": "z80", "python": "3.11", "pyarrow": "26", "pyspark": "4"}
    found = Results(machine=machine, recording=recording())
    (bar,) = bars(found)
    assert bar.met
    assert [each.bytes_per_range < 20_000 for each in found.recording] == [False, True, True]
    assert "KB written per range" in show(found)


def test_what_a_producer_takes_is_told_for_each_kind(tmp_path: Path) -> None:
    machine = {"processors": "2", "architecture": "z80", "python": "3.11", "pyarrow": "26", "pyspark": "4"}
    found = Results(machine=machine, producer=producing(tmp_path, quick=True))
    assert [each.what for each in found.producer] == [
        "producer, 1 partition",
        "idempotent producer, 1 partition",
        "producer, 4 partitions",
    ]
    assert all(each.per_s > 0 and each.per_cpu_s > 0 for each in found.producer)
    assert [bar.at_least for bar in bars(found)] == [150_000] * 3
    assert "| producer, 4 partitions " in show(found)
    assert list(tmp_path.iterdir()) == []
