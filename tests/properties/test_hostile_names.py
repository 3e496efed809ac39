"""Words of the formats and of the layout as the names that users give: of topics, applications, producers, consumers
and checkpoints. All of a chunk live in one warehouse: appends, compaction, collection, deletion, and another life."""

import random
from pathlib import Path

import pytest

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.log.names import NAME_CHARACTERS_MAX
from lithify.log.warehouse import Warehouse
from lithify.manifest.keys import is_topic_name
from lithify.store.driver import new_id
from tests.clock import HandClock
from tests.properties.hostile import words

GRACE_MS = 400_000
CHUNK = 10  # names of one test
EVERYDAY, ALL = 1, 30  # chunks
LAYOUT = (
    *("lithify.footer.xxh3", "lithify.row_groups.xxh3", "file_xxh3", "PAR1", "xxh3", "nonce", "kind", "format"),
    *("config", "manifest", "compactor", "boundary", "segments", "over", "again", "ended", "warehouse", "lithify"),
    *("00000", "0123456789abcdef", "00000000000000000001.topic", "000000000001-0123456789abcdef.parquet", "null", "-"),
    *("@ended", "@warehouse", '"}', '{"format":1', "\\u0000", "../..", "a/b", "%2F", "*", "?", "#", "~", "..."),
)


def names_of(chunk: int) -> list[str]:
    texts = [word.decode("utf-8", "replace") for word in words()]
    names = random.Random(f"names {chunk}").sample(texts, CHUNK)
    return [name for name in names if name.isprintable() and len(name) <= NAME_CHARACTERS_MAX]


def live_under(names: list[str], url: str) -> None:
    clock = HandClock()
    warehouse = lithify.open(url, clock)
    for life in range(2):
        for number, name in enumerate(names):
            write(warehouse, topic_of(names, number), name, life)
        compactor, collector = lithify.Compactor(warehouse, engine="local"), lithify.Collector(warehouse)
        for _ in range(3):
            assert {part.outcome for part in compactor.run_once().partitions} <= {"worked", "idle"}
            clock.now_ms += 2 * GRACE_MS
            assert {part.fault for part in collector.run_once(sweep=True).partitions} <= {None}
        assert Verifier(warehouse.driver, local_checks, deep=True).verify().findings == ()
        assert sorted(warehouse.topics()) == sorted(topic_of(names, number) for number in range(len(names)))
        for number, name in enumerate(names):
            read(warehouse, topic_of(names, number), name)
            warehouse.delete_topic(topic_of(names, number))
    assert warehouse.topics() == []


def topic_of(names: list[str], number: int) -> str:
    return names[number] if is_topic_name(names[number]) else f"t{number}"


def write(warehouse: Warehouse, topic_name: str, name: str, life: int) -> None:
    topic = warehouse.create_topic(topic_name, config={"cleanup.policy": "compact"}, probe=False)
    part, key = topic.partition(0), name.encode()
    assert [part.append([lithify.Record(key, b"1", 1)], txn=(name, 1)) for _ in range(2)] == [range(1)] * 2
    with topic.producer(name) as producer:
        producer.append(key, b"%d" % life, timestamp_ms=2, headers=((name, key),))
    with part.consumer(name) as consumer:
        assert len(consumer.poll()) == 2
        consumer.commit()
    part.snapshot(pin=name)


def read(warehouse: Warehouse, topic_name: str, name: str) -> None:
    part = warehouse.topic(topic_name).partition(0)
    found, key = part.get(name.encode()), name.encode()
    assert found is not None
    assert found.headers == ((name, key),)
    assert [record.key for record in part.read()] == [key]
    assert [known.application for known in part.transactions()] == [name]
    assert [(known.name, known.offset) for known in part.consumers()] == [(name, 2)]
    assert len(list(part.snapshot(pin=name).read())) == 2, "the manifest from before the compaction"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_words_of_the_formats_are_names_like_others(chunk: int) -> None:
    live_under([*dict.fromkeys(names_of(chunk))], f"memory://{new_id()}")


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_more_words_of_the_formats_are_names_like_others(chunk: int) -> None:
    live_under([*dict.fromkeys(names_of(chunk))], f"memory://{new_id()}")


@pytest.mark.slow
def test_words_of_the_layout_are_names_like_others() -> None:
    live_under([*LAYOUT[::2]], f"memory://{new_id()}")


@pytest.mark.slow
def test_words_of_the_layout_are_names_like_others_in_a_folder(tmp_path: Path) -> None:
    live_under([*LAYOUT], str(tmp_path / "warehouse"))
