"""What an idle partition costs: two GETs a poll, once a minute three, and nothing is ever written."""

import lithify
from lithify.compactor.compactor import REST_MS
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.request_counts import RequestCounts
from tests.e2e.workload import Workload


def polled(compactor: lithify.Compactor, store: Metered) -> RequestCounts:
    before = store.requests()
    report = compactor.run_once()
    assert {p.outcome for p in report.partitions} == {"idle"}
    return store.requests() - before


def test_an_idle_poll_costs_two_gets_a_partition() -> None:
    warehouse = lithify.open("memory://idle-polls")
    partitions = 5
    topic = warehouse.create_topic("users", partitions, {"cleanup.policy": "compact"})
    for number in range(partitions):
        Workload(number, keys=50).append(topic.partition(number), 100)
    store = warehouse.store
    assert isinstance(store, Metered)
    assert isinstance(store.inner, MemoryStore)
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.run_once()
    for _ in range(6):
        cost = polled(compactor, store)
        # One LIST finds the topics, one GET asks for a newer configuration of each.
        assert (cost.lists, cost.gets, cost.heads) == (1, 1 + 2 * partitions, 0)
        assert (cost.creates, cost.puts, cost.reads, cost.deletes) == (0, 0, 0, 0)
    Workload(99, keys=50).append(topic.partition(3), 5_000)
    assert "worked" in {p.outcome for p in compactor.run_once().partitions}, "a new append is noticed by the next poll"
    asked = lithify.Admin(warehouse).submit("users", 1)
    compactor.run_once()
    assert lithify.Admin(warehouse).compaction(asked.id).status == "completed", "and so is a request"
    compactor.close()


def test_an_idle_poll_after_a_pause_looks_at_the_boundary() -> None:
    """Who slept through a collection finds no next manifest, but a boundary that moved."""
    clock_ms = [1_000_000]
    with lithify.open("memory://idle-boundary", clock=lambda: clock_ms[0]) as warehouse:
        part = warehouse.create_topic("users", 1, {"cleanup.policy": "compact"}).partition(0)
        part.append([lithify.Record(b"k", b"v")])
        store = warehouse.store
        assert isinstance(store, Metered)
        compactor = lithify.Compactor(warehouse, engine="local", rest_ms=REST_MS)
        compactor.run_once()
        seen = part.describe().manifest_id
        costs = []
        for waited_ms in (0, 14_999, 1, 300_000, 3_600_000):
            clock_ms[0] += waited_ms
            costs.append(polled(compactor, store).gets - 1)
        # Both chains; once they rest for longer than a round one of them; after a pause the boundary, too.
        assert costs == [2, 2, 2, 3, 2]
        for number in range(20):
            part.append([lithify.Record(b"%d" % number, b"v")])
        collector = lithify.Collector(warehouse, grace_ms=0)
        for _ in range(4):
            clock_ms[0] += 1
            collector.run_once(sweep=True)
        gone = partition_keys(warehouse.driver.run(live_topic(topic_lineage("users"), "users")))[0]
        assert store.get(gone.manifest.key(seen + 1)) is None, "the number it would look for is collected"
        clock_ms[0] += 60_000
        (report,) = compactor.run_once().partitions
        assert report.outcome == "worked"
        compactor.close()


def test_the_workers_requests_are_foretold_and_counted_alike() -> None:
    warehouse = lithify.open("memory://foretold")
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}).partition(
        0
    )
    for number in range(3):
        part.append([lithify.Record(key=b"%d" % number, value=b"v")])
    lithify.Compactor(warehouse, engine="local").run_once()
    (done,) = lithify.Admin(warehouse).compactions()
    assert done.estimate is not None
    assert (done.estimate.gets, done.estimate.puts) == (done.counts.gets, done.counts.puts)
    assert done.counts.gets > 0
    assert min(done.estimate.own_gets, done.estimate.own_puts) > 0
