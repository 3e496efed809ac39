"""P21: birth and end of topics."""

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.gc.collect import collect, sweep
from lithify.manifest.appends import Append
from lithify.manifest.catalog import (
    alter_topic,
    create_topic,
    delete_topic,
    live_topic,
    partition_keys,
    topic_lineage,
    topic_names,
)
from lithify.manifest.claims import Claim
from lithify.manifest.config import parse
from lithify.manifest.keys import PartitionKeys, TopicKeys
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.store.errors import AlreadyExists, InvalidRequest, NotFound
from lithify.store.port import Create, Delete, Get, Head
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import (
    FIRST,
    GRACE_MS,
    KEYS,
    L0_MAX,
    ROWS,
    Held,
    append,
    append_rows,
    appends,
    at,
    claim,
    new_partition,
    replacing,
    rounds_of_creates,
    segment,
)

CONFIG = TopicKeys("t").config


def test_a_partitions_first_manifest_exists_before_its_topic_is_announced() -> None:
    held = Held(World(0), create_topic(topic_lineage("t"), "t", 3, {}))
    topic = held.end()
    created = rounds_of_creates(held)
    assert created == [[keys.manifest.key(1) for keys in partition_keys(topic)], [CONFIG.key(1)]]


def test_new_partitions_exist_before_they_are_announced_and_their_count_never_shrinks() -> None:
    world, lineage = World(0), topic_lineage("t")
    topic = world.alone(create_topic(lineage, "t", 1, {}))
    held = Held(world, alter_topic(lineage, topic, {}, 3))
    grown = held.end()
    created = rounds_of_creates(held)
    new = partition_keys(grown)[1:]
    first, bounds = ([keys.manifest.key(number) for keys in new] for number in (1, 2))
    assert created == [first, [CONFIG.key(2)], bounds]
    with pytest.raises(InvalidRequest, match="cannot shrink"):
        world.alone(alter_topic(lineage, grown, {}, 2))
    with pytest.raises(InvalidRequest, match="cannot shrink"):
        world.alone(alter_topic(topic_lineage("t"), topic, {}, 2))  # by one who knows the smaller count


def test_who_knows_an_earlier_life_of_a_topic_changes_nothing_of_the_next() -> None:
    world, old, new = World(0), topic_lineage("t"), topic_lineage("t")
    first = world.alone(create_topic(old, "t", 1, {}))
    world.alone(delete_topic(new, first))
    with pytest.raises(NotFound, match="any more"):
        world.alone(live_topic(old, "t"))
    with pytest.raises(NotFound, match="deleted in the meantime"):
        world.alone(alter_topic(old, first, {"retention.ms": "5"}, None))
    world.alone(delete_topic(old, first))
    assert CONFIG.key(3) not in world.objects, "deleted once"
    world.now_ms = 77_000
    second = world.alone(create_topic(new, "t", 1, {}))
    assert second.topic_id != first.topic_id
    assert second.created_at_ms >= 77_000
    with pytest.raises(NotFound, match="deleted in the meantime"):
        world.alone(alter_topic(old, first, {"retention.ms": "5"}, None))
    world.alone(delete_topic(old, first))
    found = world.alone(live_topic(topic_lineage("t"), "t"))
    assert (found.topic_id, found.config, found.created_at_ms) == (second.topic_id, {}, second.created_at_ms)


@pytest.mark.parametrize("partitions", [None, 2])
def test_an_alter_that_makes_no_partition_reads_none(partitions: int | None) -> None:
    """Where the logs end is noted as they grow. Damage in one partition, say, is no reason to change no setting."""
    world, lineage = World(0), topic_lineage("t")
    topic = world.alone(create_topic(lineage, "t", 2, {}))
    held = Held(world, alter_topic(lineage, topic, {"segment.bytes": "1048576"}, partitions))
    held.end()
    asked = [request.key for request in held.asked if isinstance(request, Get | Head | Create)]
    assert CONFIG.key(2) in asked
    assert not [key for key in asked if key.startswith(tuple(keys.root for keys in partition_keys(topic)))]


def test_values_are_set_kept_and_taken_back() -> None:
    world, lineage = World(0), topic_lineage("t")
    topic = world.alone(create_topic(lineage, "t", 1, {"retention.ms": "5", "retention.bytes": "7"}))
    changed = world.alone(alter_topic(lineage, topic, {"retention.ms": "6"}, None))
    assert changed.config == {"retention.ms": "6", "retention.bytes": "7"}
    back = world.alone(alter_topic(lineage, topic, {"retention.ms": None, "segment.bytes": None}, None))
    assert back.config == {"retention.bytes": "7"}


def test_a_topic_has_one_to_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.catalog.PARTITIONS_MAX", 3)
    world, lineage = World(0), topic_lineage("t")
    for count in (0, 4):
        with pytest.raises(InvalidRequest, match="between 1 and 3"):
            world.alone(create_topic(lineage, "t", count, {}))
    assert world.objects == {}
    topic = world.alone(create_topic(lineage, "t", 3, {}))
    with pytest.raises(InvalidRequest, match="the limit is 3"):
        world.alone(alter_topic(lineage, topic, {}, 4))
    assert world.alone(alter_topic(lineage, topic, {}, 3)).partitions == 3
    with pytest.raises(AlreadyExists):
        world.alone(create_topic(topic_lineage("t"), "t", 1, {}))


def test_one_of_two_creators_wins() -> None:
    world = World(0)
    first, second = (Held(world, create_topic(topic_lineage("t"), "t", 1, {})) for _ in range(2))
    for held in (first, second):
        held.until(lambda r: isinstance(r, Create) and CONFIG.number(r.key) is not None)
    mine = first.end()
    with pytest.raises(AlreadyExists):
        second.end()
    assert world.alone(live_topic(topic_lineage("t"), "t")).topic_id == mine.topic_id


def test_deletion_is_announced_before_partitions_are_sealed() -> None:
    world, lineage = World(0), topic_lineage("t")
    topic = world.alone(create_topic(lineage, "t", 2, {}))
    held = Held(world, delete_topic(lineage, topic))
    held.end()
    created = rounds_of_creates(held)
    assert created == [[CONFIG.key(2)], [keys.manifest.key(2) for keys in partition_keys(topic)]]
    with pytest.raises(NotFound, match="any more"):
        world.alone(live_topic(lineage, "t"))


@pytest.mark.parametrize(
    "edit", [Append(segment("000000000001-x"), L0_MAX), Claim(None), CreateCheckpoint("c", "c", None)]
)
def test_sealed_is_terminal(edit: object) -> None:
    sealed = Seal().apply(at(FIRST, 1), 2, 0).value  # type: ignore[union-attr]
    verdict = edit.apply(sealed, 3, 0)  # type: ignore[attr-defined]
    assert isinstance(verdict.error, NotFound)
    assert "was deleted" in str(verdict.error)


def test_a_compaction_under_way_cannot_commit_into_a_sealed_partition() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 2))
    head = world.alone(files.head())
    world.alone(PartitionFiles(KEYS).manifest.commit(Seal()))
    with pytest.raises(NotFound, match="was deleted"):
        world.alone(files.manifest.commit(replacing(head, head.l0, epoch)))
    assert world.alone(files.head()).segments() == ()


def test_a_job_whose_topic_is_deleted_as_it_commits_is_cancelled_and_has_not_failed() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    config = parse({"cleanup.policy": "compact"})
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(config), []))
    held.until(lambda r: isinstance(r, Create) and b'"completed_jobs":[{' in r.body)
    world.alone(PartitionFiles(KEYS).manifest.commit(Seal()))
    step = held.end()
    assert (step.outcome, step.job.status) == ("worked", "cancelled")
    assert step.job.reason == "the topic was deleted"
    assert step.job.ended_by == "deletion"


def test_a_topic_of_the_same_name_shares_nothing() -> None:
    world, lineage = World(0), topic_lineage("t")
    old = world.alone(create_topic(lineage, "t", 1, {}))
    files = PartitionFiles(partition_keys(old)[0])
    world.alone(files.head())
    world.alone(delete_topic(lineage, old))
    new = world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
    assert new.topic_id != old.topic_id
    with pytest.raises(NotFound, match="a new topic has that name"):
        world.alone(files.manifest.commit(Append(segment("000000000001-x"), L0_MAX)))
    assert world.alone(PartitionFiles(partition_keys(new)[0]).head()).next_offset == 0


def test_normal_collection_empties_a_deleted_partition() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append(files))
    world.alone(files.manifest.commit(CreateCheckpoint("c", "c", None)))
    world.alone(files.manifest.commit(Seal()))
    for _ in range(4):
        world.alone(collect(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert [key for key in world.objects if KEYS.segment_id(key)] == []


def test_topic_files_are_never_collected() -> None:
    world, lineage = World(0), topic_lineage("t")
    topic = world.alone(create_topic(lineage, "t", 1, {}))
    for index in range(300):
        topic = world.alone(alter_topic(lineage, topic, {"retention.ms": str(index)}, None))
    files = PartitionFiles(partition_keys(topic)[0])
    for _ in range(3):
        held = Held(world, sweep(files, GRACE_MS))
        held.end()
        assert not any(CONFIG.number(key) for request in held.asked_for(Delete) for key in request.keys)
        world.now_ms += GRACE_MS
    assert all(CONFIG.key(number) in world.objects for number in range(1, 302))


def test_every_name_that_can_be_created_is_found_again() -> None:
    world = World(0)
    names = ["a", "A.b_c-1", "_x", ".hidden", "...", "a" * 249]
    for name in names:
        world.alone(create_topic(topic_lineage(name), name, 1, {}))
    assert sorted(world.alone(topic_names())) == sorted(names)


def test_folders_that_are_no_topics_are_passed_over() -> None:
    world = World(0)
    world.alone(create_topic(topic_lineage("a"), "a", 1, {}))
    world.objects |= dict.fromkeys([".lithify-probe/x", "two words/x", "ü/x", "file"], (b"x", 0))
    assert world.alone(topic_names()) == ["a"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a" * 250, "ü", "a\n", ".lithify-probe"])
def test_names_that_could_become_paths_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is not allowed"):
        topic_lineage(name)


def test_partitions_of_two_lives_are_apart() -> None:
    assert PartitionKeys("t", "0" * 16, 0).root != PartitionKeys("t", "1" * 16, 0).root
