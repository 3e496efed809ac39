"""Two releases on one warehouse, the later of which writes a later format: the earlier one refuses what it cannot read,
serves the rest, and deletes nothing of either."""

from pathlib import Path

import pytest
from msgspec.structs import replace

import lithify
from lithify.manifest.codec import encode
from lithify.manifest.model import FORMAT_MAX
from lithify.store.port import Outcome
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned

LATER = rf"has format {FORMAT_MAX + 1}.*reads up to format {FORMAT_MAX}: upgrade lithify"


def objects(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def committed_by_a_later_release(warehouse: lithify.Warehouse, topic: str) -> str:
    """The next manifest, of the next format. Its key."""
    files = partition_files(warehouse, topic)
    head = warehouse.driver.run(files.head())
    later = replace(head, id=head.id + 1, format=FORMAT_MAX + 1)
    key = files.keys.manifest.key(later.id)
    assert warehouse.store.create(key, encode(later)) is Outcome.CREATED
    return key


def test_an_earlier_release_refuses_a_later_format_and_serves_the_rest(tmp_path: Path) -> None:
    before = lithify.open(str(tmp_path))
    workload = Workload(1)
    for name in ("altered", "same"):
        partition = before.create_topic(name, 1, CONFIG).partition(0)
    for _ in range(3):
        workload.append(partition, 1_000)
    altered = before.topic("altered").partition(0)
    Workload(2).append(altered, 1_000)
    key = committed_by_a_later_release(before, "altered")
    held = {name for name in objects(tmp_path) if name.startswith("altered/")}

    with lithify.open(str(tmp_path)) as earlier:
        refused = earlier.topic("altered").partition(0)
        for step in (lambda: refused.append([lithify.Record(b"k", b"v")]), lambda: scanned(refused), refused.describe):
            with pytest.raises(lithify.InvalidRequest, match=LATER):
                step()
        compactor = lithify.Compactor(earlier, engine="local")
        outcomes = {report.topic: report for report in compactor.run_once().partitions}
        compactor.close()
        assert outcomes["altered"].fault is not None
        assert "upgrade lithify" in outcomes["altered"].fault.message
        assert outcomes["same"].fault is None
        assert [job.status for job in outcomes["same"].jobs] == ["completed"]
        report = lithify.Collector(earlier, grace_ms=0).run_once(sweep=True)
        assert any(part.fault and "upgrade lithify" in part.fault.message for part in report.partitions)
        assert scanned(earlier.topic("same").partition(0)) == workload.model
    assert held <= objects(tmp_path), "nothing of what it cannot read is deleted"
    assert (tmp_path / key).exists()
