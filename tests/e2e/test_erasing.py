"""Removing a key for good (docs/operations.md): at the end nothing in the store holds the key or its values."""

import io

import pyarrow.parquet as pq
import pytest

import lithify
from lithify.store.listing import objects

DAY_MS = 86_400_000


def run(warehouse: lithify.Warehouse) -> None:
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.run_once()
    compactor.close()


def holders(warehouse: lithify.Warehouse, wanted: bytes) -> set[str]:
    """The objects in which it stands, in whatever way they are compressed."""
    found: set[str] = set()
    for each in objects(warehouse.store, ""):
        stored = warehouse.store.get(each.key)
        assert stored is not None
        held = stored.body
        if each.key.endswith(".parquet"):
            table = pq.read_table(io.BytesIO(held)).select(["key", "value"])
            held += b"\0".join(cell or b"" for column in table.to_pydict().values() for cell in column)
        if wanted in held:
            found.add(each.key)
    return found


@pytest.mark.parametrize("key", [b"aa-erased", b"mm-erased", b"zz-erased"])
def test_it_is_in_no_object(key: bytes) -> None:
    """The smallest and the largest key, too: they are bounds in manifests, and in a segment's footer."""
    now = [1_800_000_000_000]
    with lithify.open(f"memory://{key.decode()}", clock=lambda: now[0]) as warehouse:
        topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"}, probe=False)
        admin = lithify.Admin(warehouse)
        others = [lithify.Record(b"%s-%03d" % (part, n), b"kept") for part in (b"bb", b"nn", b"yy") for n in range(50)]
        for value in (b"erased-1", b"erased-2"):
            topic.append([*others, lithify.Record(key, value)])
        run(warehouse)
        topic.partition(0).snapshot(pin="old")
        assert holders(warehouse, key)

        topic.append([lithify.Record(key, None)])
        admin.submit("users", 0)
        run(warehouse)
        now[0] += DAY_MS + 1
        topic.append([lithify.Record(b"bb-000", b"kept")])
        admin.submit("users", 0)
        run(warehouse)
        (kept,) = {
            name for copy in admin.history("users", key, trace=True).versions[-1].copies for name in copy.checkpoints
        }
        assert "old" in kept
        admin.delete_checkpoint("users", "old", 0)
        for _ in range(3):
            now[0] += DAY_MS
            admin.gc(sweep=True)

        assert topic.get(key) is None
        assert not admin.history("users", key, trace=True).versions
        assert holders(warehouse, key) == holders(warehouse, b"erased-") == set()
        assert topic.scan().read_all().num_rows == len(others)
