"""The reply of every third numbered PUT is lost after it was stored: no double commit, no lost commit (P1)."""

import pytest

import lithify
from lithify.testing.faults import lose_replies
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned


@pytest.mark.slow
def test_every_third_reply_lost(lithify_warehouse: lithify.Warehouse) -> None:
    warehouse = lithify_warehouse
    warehouse.create_topic("users", 1, {**CONFIG, "l0.segments.tier": 4})
    workload = Workload(6)
    with lose_replies(warehouse.store, every=3) as replies:
        compactor = lithify.Compactor(warehouse, engine="local")
        ranges: list[range] = []
        for _ in range(5):
            partition = warehouse.topic("users").partition(0)  # anew: with no grace, handles go stale
            ranges += [workload.append(partition, 100) for _ in range(3)]
            compactor.run_once()
            lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)
        compactor.close()
    partition = warehouse.topic("users").partition(0)
    assert replies.lost >= 10
    assert [offset for offsets in ranges for offset in offsets] == list(range(workload.appended))
    assert partition.describe().next_offset == workload.appended
    assert scanned(partition) == workload.model
    state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
    assert state is not None
    assert not state.jobs
    assert {job.status for job in state.history} == {"completed"}
