"""P6: appends need no epoch; segment id, producer sequence and transaction version make them idempotent."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import PRODUCER_BATCHES_KEPT, PRODUCERS_MAX, Manifest, ProducerEntry
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.transactions import TransactionStamp
from lithify.store.errors import AlreadyExists, Fenced, InvalidRequest, LithifyError, Unavailable
from tests.protocol.scene import (
    FIRST,
    KEYS,
    L0_MAX,
    Held,
    append,
    appends,
    at,
    claim,
    compact,
    new_partition,
    segment,
    upload,
)

HEAD = at(FIRST, 1)


def then(head: Manifest, edit: Any) -> tuple[Manifest, Any]:
    verdict = edit.apply(head, head.id + 1, 0)
    assert isinstance(verdict, Next), verdict
    return at(verdict.value, head.id + 1), verdict.result


def refusal(head: Manifest, edit: Any) -> LithifyError:
    verdict = edit.apply(head, head.id + 1, 0)
    assert isinstance(verdict, Refused), verdict
    return verdict.error


def opened(head: Manifest, producer: str) -> tuple[Manifest, int]:
    head, stamp = then(head, OpenProducer(producer))
    return head, stamp.epoch


def by(producer: str, epoch: int, sequence: int, name: str, rows: int = 2) -> Append:
    return Append(segment(f"000000009999-{name}", rows), L0_MAX, producer=ProducerStamp(producer, epoch, sequence))


def test_any_number_of_producers_append_without_coordination() -> None:
    world = new_partition()
    actors = [world.start(f"producer {n}", appends(PartitionFiles(KEYS), 5)) for n in range(6)]
    world.run()
    assert [a.failed for a in actors] == [None] * 6
    head = world.alone(PartitionFiles(KEYS).head())
    assert [s.base_offset for s in head.l0] == list(range(30))
    assert head.compactor_epoch == 0


def test_a_repeat_answers_with_the_offsets_of_a_live_segment() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    ref, offsets = world.alone(append(files, 3))
    world.alone(appends(files, 2))
    again = world.alone(PartitionFiles(KEYS).manifest.commit(Append(ref, L0_MAX)))
    assert again.repeated
    assert again.result == offsets == range(3)


def test_a_repeat_answers_with_the_offsets_of_a_retired_segment() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 2))
    ref, offsets = world.alone(append(files, 3))
    world.alone(compact(files, world.alone(claim(files))))
    again = world.alone(PartitionFiles(KEYS).manifest.commit(Append(ref, L0_MAX)))
    assert again.repeated
    assert again.result == offsets == range(2, 5)


def test_a_repeated_batch_of_a_producer_returns_its_offsets_under_any_segment() -> None:
    head, epoch = opened(HEAD, "p")
    head, first = then(head, by("p", epoch, 0, "a"))
    head, _ = then(head, by("p", epoch, 2, "b"))
    assert by("p", epoch, 0, "c").apply(head, 9, 0) == Already(first) == Already(range(2))


def test_only_the_latest_batches_may_be_repeated() -> None:
    head, epoch = opened(HEAD, "p")
    for index in range(PRODUCER_BATCHES_KEPT + 1):
        head, _ = then(head, by("p", epoch, 2 * index, str(index)))
    assert len(head.producers[0].batches) == PRODUCER_BATCHES_KEPT
    assert isinstance(by("p", epoch, 2, "again").apply(head, 9, 0), Already)
    assert isinstance(refusal(head, by("p", epoch, 0, "again")), InvalidRequest)


def test_a_gap_in_a_sequence_is_refused() -> None:
    head, epoch = opened(HEAD, "p")
    assert isinstance(refusal(head, by("p", epoch, 2, "a")), InvalidRequest)


def test_an_older_epoch_is_fenced_from_the_moment_the_next_is_committed() -> None:
    head, first = opened(HEAD, "p")
    head, second = opened(head, "p")
    assert second > first
    assert isinstance(refusal(head, by("p", first, 0, "a")), Fenced)
    assert isinstance(refusal(head, by("p", second + 1, 0, "a")), InvalidRequest)
    then(head, by("p", second, 0, "a"))


def test_an_instance_that_starts_again_is_told_how_many_records_are_there() -> None:
    """Tried on manifest/producers.py, and caught: a sequence from 0 in the answer, in the entry, and in both."""
    head, first = then(HEAD, OpenProducer("p"))
    assert first == ProducerStamp("p", first.epoch, 0)
    head, _ = then(head, by("p", first.epoch, 0, "a", 3))
    head, _ = then(head, OpenProducer("another"))
    head, second = then(head, OpenProducer("p"))
    assert second == ProducerStamp("p", second.epoch, 3)
    assert isinstance(refusal(head, by("p", second.epoch, 0, "b")), InvalidRequest)
    head, offsets = then(head, by("p", second.epoch, 3, "b"))
    assert offsets == range(3, 5)
    assert then(head, OpenProducer("p"))[1].sequence == 5


@pytest.mark.parametrize("sequence", [0, 7])
def test_an_unknown_producer_is_refused(sequence: int) -> None:
    assert isinstance(refusal(HEAD, by("nobody", 0, sequence, "a")), InvalidRequest)


def full(touched_at: int, orphan_floor: int) -> Manifest:
    entries = tuple(ProducerEntry(id=f"p{n}", epoch=0, touched_at=touched_at + n) for n in range(PRODUCERS_MAX))
    return replace(HEAD, id=touched_at + PRODUCERS_MAX, producers=entries, orphan_floor=orphan_floor)


def test_a_producer_that_appends_is_not_the_one_idle_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago it was opened. Tried on manifest/producers.py, and caught: the entry is dated by its opening
    alone, and the next append is refused as of a producer that is not known."""
    monkeypatch.setattr("lithify.manifest.producers.PRODUCERS_MAX", 4)
    head, epoch = opened(replace(HEAD, orphan_floor=9_000), "busy")
    for number in range(10):
        head, _ = then(replace(head, l0=()), by("busy", epoch, 2 * number, f"busy{number}"))
        head, _ = opened(head, f"new{number}")
    assert {producer.id for producer in head.producers} == {"busy", "new7", "new8", "new9"}


def test_an_entry_expires_only_below_the_orphan_floor() -> None:
    assert isinstance(refusal(full(10, 10), OpenProducer("new")), Unavailable)
    head, _ = then(full(10, 11), OpenProducer("new"))
    assert "p0" not in {p.id for p in head.producers}
    assert len(head.producers) == PRODUCERS_MAX


def test_a_forgotten_producer_that_comes_back_does_not_share_an_epoch_with_its_past() -> None:
    """Two instances of one id, the elder asleep: the entry is forgotten at the bound, the younger opens it anew. If
    both held the same epoch, the elder's next batch would be taken for the younger's."""
    head, elder = opened(full(10, 11), "new")
    head = replace(head, producers=tuple(p for p in head.producers if p.id != "new"))  # forgotten
    head = replace(head, producers=head.producers[1:], id=head.id + 1)
    head, younger = opened(head, "new")
    assert younger > elder
    head, _ = then(head, by("new", younger, 0, "a"))
    assert isinstance(refusal(head, by("new", elder, 2, "b")), Fenced)


def txn(version: int, name: str) -> Append:
    return Append(segment(f"000000000001-{name}", 2), L0_MAX, transaction=TransactionStamp("app", version))


def test_a_transaction_version_is_appended_once() -> None:
    head, first = then(HEAD, txn(3, "a"))
    assert txn(3, "b").apply(head, 9, 0) == Already(first)
    head, second = then(head, txn(5, "c"))
    assert second == range(2, 4)
    assert isinstance(refusal(head, txn(3, "d")), AlreadyExists)
    assert isinstance(refusal(head, txn(4, "d")), AlreadyExists)


def test_a_writer_with_lost_replies_appends_each_segment_once() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    for _ in range(20):
        world.fault_share = 0.0
        segment = Held(world, upload(files)).end()
        world.fault_share = 0.4
        with_fault = world.start("w", files.manifest.commit(Append(segment, L0_MAX)))
        while with_fault.running:
            world.step(with_fault)
    world.fault_share = 0.0
    head = world.alone(PartitionFiles(KEYS).head())
    assert len({s.id for s in head.l0}) == len(head.l0)
    assert [s.base_offset for s in head.l0] == list(range(head.next_offset))
