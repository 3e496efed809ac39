"""A topic without a cold home asks for nothing that homes would need: what everyday work asks is counted here, and no
other store is opened (RFC 0031)."""

from collections.abc import Callable

import lithify
from lithify.store.homes import HERE


def test_everyday_work_is_counted() -> None:
    warehouse = lithify.open("memory://no-homes")
    topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"}, probe=False)
    part, record = topic.partition(0), lithify.Record(b"k", b"v")
    admin, compactor = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    part.append([record])

    def asked(do: Callable[[], object]) -> dict[str, int]:
        before = warehouse.store.requests()
        do()
        made = warehouse.store.requests() - before
        names = ("creates", "gets", "reads", "puts", "output_requests", "heads", "lists", "deletes")
        return {name: getattr(made, name) for name in names if getattr(made, name)}

    assert asked(lambda: part.append([record])) == {"creates": 1, "gets": 1, "puts": 1}
    assert asked(lambda: part.get(b"k")) == {"gets": 2, "reads": 2}
    assert asked(lambda: part.scan().read_all()) == {"gets": 2, "reads": 4}
    admin.submit("users", 0)
    compactor.run_once()
    assert asked(compactor.run_once) == {"gets": 3, "lists": 1}
    compactor.close()
    assert [home for home, _ in warehouse.driver.homes] == [HERE]
