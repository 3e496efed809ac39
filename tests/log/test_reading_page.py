"""docs/reading.md is true: its blocks run, and a get that may be old asks for what it says."""

import re
from pathlib import Path

from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reading.md"


def test_the_page_is_true() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    exec(compile("".join(blocks).replace("memory://reading", f"memory://{new_id()}"), str(PAGE), "exec"), {})


def test_a_get_that_may_be_old_asks_for_what_is_not_in_memory() -> None:
    """The head is not asked for again, and rows that were read are not read again."""
    store = Metered(MemoryStore())
    topic = Warehouse(Driver(store)).create_topic("t", 4, probe=False)
    topic.append([Record(b"%d" % n, b"v") for n in range(40)])
    keys = [b"%d" % n for n in range(40)]
    asked: list[int] = []
    for call in (
        lambda: topic.get_many(keys),
        lambda: topic.get_many(keys, max_staleness_ms=60_000),
        lambda: topic.get(keys[7], max_staleness_ms=60_000),
        lambda: topic.get(keys[7]),
    ):
        before = store.requests().total
        call()
        asked.append(store.requests().total - before)
    assert asked[0] > asked[3] == 2
    assert asked[1:3] == [0, 0]
