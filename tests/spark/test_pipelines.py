"""The pipelines of docs/spark.md do what the page says: its code is run as it stands there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import lithify

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
pytestmark = pytest.mark.spark


def pipeline(title: str, **names: Any) -> dict[str, Any]:
    """What the code below this title leaves in its names."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^### {re.escape(title)}\n.*?```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/spark.md has no pipeline {title!r}"
    exec(compile(found[1], f"docs/spark.md: {title}", "exec"), names)
    return names


def latest(topic: lithify.Topic) -> dict[bytes, Any]:
    table = topic.scan().read_all()
    return {
        key: json.loads(value)
        for key, value in zip(*(table[name].to_pylist() for name in ("key", "value")), strict=True)
    }


@pytest.fixture
def names(spark: Any, url: str, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "files").mkdir()
    return {"spark": spark, "url": url, "files": str(tmp_path / "files")}


def test_changes_from_debezium(names: dict[str, Any], warehouse: lithify.Warehouse) -> None:
    def change(op: str, number: int, before: str | None, after: str | None) -> str:
        rows = [None if name is None else {"id": number, "name": name} for name in (before, after)]
        value = {"before": rows[0], "after": rows[1], "op": op, "ts_ms": 1_700_000_000_000 + number}
        return json.dumps({"key": {"id": number}, "value": value}) + "\n"

    folder = Path(names["files"]) / "debezium"
    folder.mkdir()
    created = [change("c", number, None, f"n{number}") for number in range(3)]
    later = [change("u", 1, "n1", "Ada"), change("d", 2, "n2", None), change("u", 1, "Ada", "Ada Lovelace")]
    more = [change("c", number, None, f"n{number}") for number in range(3, 60)]
    # The newer file is the larger one, which Spark reads first. Nothing in the changes of a key tells their order.
    (folder / "2026-01-01.json").write_text("".join(created), encoding="utf-8")
    (folder / "2026-01-02.json").write_text("".join(later + more), encoding="utf-8")
    topic = warehouse.create_topic("customers", partitions=2, config={"cleanup.policy": "compact"})
    pipeline("Changes from Debezium", **names)
    found = {key: value["name"] for key, value in latest(topic).items()}
    assert found == {b"0": "n0", b"1": "Ada Lovelace"} | {b"%d" % n: f"n{n}" for n in range(3, 60)}


def test_orders_from_a_folder_to_where_they_are_needed(names: dict[str, Any], warehouse: lithify.Warehouse) -> None:
    spark, files = names["spark"], names["files"]
    rows = [(number, number % 3, 10.0 * number) for number in range(30)]
    spark.createDataFrame(rows, "id bigint, customer bigint, total double").write.parquet(f"{files}/orders")
    regions = [(0, "north"), (1, "south"), (2, "south")]
    spark.createDataFrame(regions, "customer bigint, region string").write.parquet(f"{files}/regions")
    topic = warehouse.create_topic("orders", partitions=3, config={"cleanup.policy": "compact"})
    large = warehouse.create_topic("large-orders", config={"cleanup.policy": "compact"})
    for _ in range(2):
        pipeline("A folder of Parquet, once", **names)
    assert sum(topic.partition(number).describe().next_offset for number in range(3)) == 30
    totals = pipeline("The present state, joined with a table", **names)["totals"]
    expected = {name: sum(row[2] for row in rows if dict(regions)[row[1]] == name) for name in ("north", "south")}
    assert dict(map(tuple, totals.collect())) == expected
    for _ in range(2):
        pipeline("From a topic to another", **names)
        pipeline("From a topic into Parquet", **names)
    assert sorted(map(int, latest(large))) == list(range(11, 30))
    assert large.partition(0).describe().next_offset == 19
    out = spark.read.parquet(f"{files}/out")
    assert sorted(int(bytes(row.key)) for row in out.collect()) == list(range(30))
