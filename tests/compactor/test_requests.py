"""What an idle partition costs: two GETs a poll, and nothing is ever written."""

import lithify
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered, RequestCounts
from tests.e2e.workload import Workload


def polled(compactor: lithify.Compactor, store: Metered) -> RequestCounts:
    before = store.snapshot()
    report = compactor.run_once()
    assert {p.outcome for p in report.partitions} == {"idle"}
    return store.snapshot() - before


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
    for _ in range(2):
        compactor.run_once()
    assert lithify.Admin(warehouse).compaction(asked.id).status == "completed", "a request by the second poll"
    compactor.close()
