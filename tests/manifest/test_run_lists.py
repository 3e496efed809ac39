"""Run lists (docs/rfcs/0027): how a manifest's runs are laid out in them, and that nothing of it shows in memory."""

import random
from collections.abc import Mapping

import pytest
import xxhash
from msgspec.structs import replace

from lithify.manifest.codec import decode, encode
from lithify.manifest.edits import Refused
from lithify.manifest.invariants import check_manifest
from lithify.manifest.keys import PartitionKeys, RunListId
from lithify.manifest.list_layout import INLINE_MAX, LIST_MAX
from lithify.manifest.list_rules import list_problems
from lithify.manifest.model import FORMAT, FORMAT_HOMES, FORMAT_LISTS, Manifest, RetiredList, SegmentRef, SortedRun
from lithify.manifest.parts import PartMissing
from lithify.manifest.run_lists import RunLists
from lithify.manifest.runs import Runs
from lithify.store.errors import Corrupt, Unavailable
from tests.everyday import seeds
from tests.lists import whole
from tests.refs import l0_ref, segment_ref

KEYS = PartitionKeys("t", "0123456789abcdef", 0)
LISTS = RunLists(KEYS)
EMPTY = Manifest(format=FORMAT, topic="t", topic_id=KEYS.topic_id, partition=0, id=1, nonce="0" * 16)
INLINE, FULL = 3, 8  # the bounds in these tests


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", INLINE)
    monkeypatch.setattr("lithify.manifest.list_layout.LIST_MAX", FULL)


def divided(
    head: Manifest, value: Manifest, written: dict[bytes, str] | None = None
) -> tuple[Manifest, Mapping[str, bytes]]:
    made = LISTS.divided(head, value, written or {})
    assert isinstance(made, tuple)
    return made


class Chain:
    """Manifests of which each follows from the last, as they are stored."""

    def __init__(self) -> None:
        self.head = EMPTY
        self.bodies: dict[str, bytes] = {}  # of run lists
        self.written: list[int] = []  # segments in each list that was written

    def commit(self, head: Manifest, *, number: int | None = None, written: dict[bytes, str] | None = None) -> Manifest:
        number = number or self.head.id + 1
        value = replace(head, id=number, nonce=f"{number:016x}")
        value, bodies = divided(self.head, value, written)
        self.bodies |= bodies
        self.written += [each.segments for each in value.lists if KEYS.run_list(each.id) in bodies]
        self.head = value
        return value

    def runs(self, *runs: tuple[str, ...]) -> Manifest:
        """With these runs, of segments by their ids; those that are there stay as they are."""
        known = {segment.id: segment for segment in self.head.segments()}
        number = self.head.id + 1
        made = tuple(
            SortedRun(id=f"run-{ids[0]}", segments=tuple(known.get(i) or segment(i, number) for i in ids))
            for ids in runs
        )
        return self.commit(replace(self.head, runs=made))

    def read(self) -> Manifest:
        """As a process that comes anew reads it."""
        body = encode(self.head)
        return whole(decode(Manifest, body, "manifest", self.head.id), self.bodies)


def segment(name: str, number: int) -> SegmentRef:
    return segment_ref(name, first=int(name), added_at=number, min_key=b"k" + name.encode())


def names(first: int, count: int) -> tuple[str, ...]:
    return tuple(f"{n:06d}" for n in range(first, first + count))


def lengths(manifest: Manifest) -> list[int]:
    return [each.segments for each in manifest.lists]


def test_a_short_manifest_is_stored_as_ever() -> None:
    chain = Chain()
    made = chain.runs(names(0, INLINE_MAX))
    assert made.format == FORMAT
    assert b'"lists"' not in encode(made)
    assert decode(Manifest, encode(made), "m", made.id).runs == made.runs


def test_a_long_run_is_in_lists_and_nothing_of_that_shows_in_memory() -> None:
    chain = Chain()
    made = chain.runs(names(0, LIST_MAX + INLINE_MAX + 1))
    assert lengths(made) == [LIST_MAX, INLINE_MAX + 1]
    assert made.format == FORMAT_LISTS
    assert len(encode(made)) < 1_000
    assert chain.read() == made
    assert [len(run.segments) for run in made.runs] == [LIST_MAX + INLINE_MAX + 1]


@pytest.mark.usefixtures("small")
def test_a_run_may_go_on_in_the_next_list_and_in_the_manifest() -> None:
    chain = Chain()
    chain.runs(names(0, 6))
    made = chain.runs(names(0, 6), names(10, 1), names(20, 2))
    assert lengths(made) == [6]
    assert chain.read() == made
    made = chain.runs(names(0, 6), names(10, 9))
    assert lengths(made) == [8, 7]
    assert chain.read() == made


@pytest.mark.usefixtures("small")
def test_what_did_not_change_is_not_written_again() -> None:
    chain = Chain()
    chain.runs(names(0, 8), names(100, 8), names(200, 8))
    first, second, third = chain.head.lists
    chain.written.clear()
    made = chain.runs(names(0, 8), names(300, 2), names(200, 8))
    assert made.lists[0] == first
    assert made.lists[-1] == third
    assert chain.written == [2]
    assert [each.id for each in made.retired_lists] == [second.id]
    assert (made.retired_lists[0].added_at, made.retired_lists[0].retired_at) == (second.added_at, made.id)
    assert chain.read() == made


@pytest.mark.usefixtures("small")
def test_a_relocation_in_the_middle_writes_one_list() -> None:
    chain = Chain()
    chain.runs(names(0, 24))
    (run,) = chain.head.runs
    moved = replace(run.segments[12], id="999999", added_at=chain.head.id + 1)
    chain.written.clear()
    made = chain.commit(
        replace(chain.head, runs=(replace(run, segments=(*run.segments[:12], moved, *run.segments[13:])),))
    )
    assert chain.written == [8]
    assert len(made.lists) == 3
    assert chain.read() == made


@pytest.mark.usefixtures("small")
def test_an_append_looks_at_no_list() -> None:
    chain = Chain()
    chain.runs(names(0, 24))
    before = chain.head
    made = chain.commit(replace(before, l0=(l0_ref("000099", 99),)))
    assert made.runs is before.runs
    assert made.lists is before.lists
    assert made.retired_lists == ()


@pytest.mark.usefixtures("small")
def test_few_runs_that_are_left_come_back_into_the_manifest() -> None:
    """So an earlier lithify can read it again, once the lists are collected."""
    chain = Chain()
    chain.runs(names(0, 20))
    made = chain.runs(names(0, INLINE))
    assert made.lists == ()
    assert len(made.retired_lists) == 3
    assert made.format == FORMAT_LISTS
    assert chain.commit(replace(made, retired_lists=())).format == FORMAT
    assert chain.commit(replace(made, retired_lists=(), homes=("class:GLACIER_IR",))).format == FORMAT_HOMES


@pytest.mark.usefixtures("small")
def test_a_list_is_the_same_whatever_number_it_is_written_for() -> None:
    """A commit that loses races would else write its lists again each time, and lose the next race meanwhile."""
    chain = Chain()
    runs = (SortedRun(id="r", segments=tuple(segment(i, 2) for i in names(0, 6))),)
    value, bodies = divided(chain.head, replace(chain.head, id=2, nonce="a" * 16, runs=runs), {})
    written = {body: key for key, body in bodies.items()}
    rival = replace(EMPTY, id=2, nonce="b" * 16)
    runs = (replace(runs[0], segments=tuple(replace(s, added_at=3) for s in runs[0].segments)),)
    again, bodies = divided(rival, replace(rival, id=3, nonce="c" * 16, runs=runs), written)
    assert bodies == {}
    assert [each.id for each in again.lists] == [each.id for each in value.lists]
    assert again.lists[0].added_at == 3
    read = whole(decode(Manifest, encode(again), "m", 3), {key: body for body, key in written.items()})
    assert read == again
    assert {s.added_at for s in read.segments()} == {3}


@pytest.mark.usefixtures("small")
def test_what_a_sweep_may_have_taken_is_written_anew() -> None:
    chain = Chain()
    runs = (SortedRun(id="r", segments=tuple(segment(i, 2) for i in names(0, 6))),)
    _, bodies = divided(chain.head, replace(chain.head, id=2, nonce="a" * 16, runs=runs), {})
    written = {body: key for key, body in bodies.items()}
    head = replace(EMPTY, id=9, nonce="b" * 16, orphan_floor=3)
    runs = (replace(runs[0], segments=tuple(replace(s, added_at=10) for s in runs[0].segments)),)
    value, bodies = divided(head, replace(head, id=10, nonce="c" * 16, runs=runs), written)
    assert [RunListId.number(each.id) for each in value.lists] == [10]
    assert len(bodies) == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", seeds(20, 200))
def test_whatever_becomes_of_the_runs_what_is_read_is_what_was_written(seed: int) -> None:
    """Runs are added, merged, dropped at the front, moved and made longer; each manifest is read back, and breaks no
    rule. There are few lists, and a segment is not written often."""
    dice, chain = random.Random(seed), Chain()
    next_name, live = 0, list[tuple[str, ...]]()
    for _ in range(60):
        kind = dice.choice(("add", "add", "add", "merge", "drop", "shorten", "move"))
        if kind == "add":
            live.append(names(next_name, dice.choice((1, 1, 2, 5, 20))))
            next_name += 20
        elif kind == "merge" and len(live) > 1:
            at = dice.randrange(len(live) - 1)
            live[at : at + 2] = [names(next_name, dice.choice((1, 3, 9, 30)))]
            next_name += 40
        elif kind == "drop" and live:
            del live[: dice.choice((1, 2, 5))]
        elif kind == "shorten" and live and len(live[0]) > 1:
            live[0] = live[0][1:]
        elif kind == "move" and live:
            at = dice.randrange(len(live))
            index = dice.randrange(len(live[at]))
            live[at] = (*live[at][:index], f"{next_name:06d}", *live[at][index + 1 :])
            next_name += 1
        before = chain.head
        made = chain.runs(*live)
        assert chain.read() == made
        assert tuple(tuple(s.id for s in run.segments) for run in made.runs) == tuple(live)
        assert all(each <= FULL for each in lengths(made))
        inline = sum(map(len, live)) - sum(lengths(made))
        assert 0 <= inline <= INLINE
        assert len(made.lists) <= 4 * (1 + sum(map(len, live)) // FULL)
        assert list(list_problems(before, made)) == []


@pytest.mark.usefixtures("small")
def test_a_segment_is_written_few_times_while_runs_come_one_after_the_other() -> None:
    chain, live = Chain(), list[tuple[str, ...]]()
    for n in range(400):
        live.append(names(n, 1))
        chain.runs(*live)
    assert sum(chain.written) < 400 * 4
    assert len(chain.head.lists) <= 400 // FULL + 4


def test_a_list_that_is_damaged_another_or_missing_is_refused(small: None) -> None:
    chain = Chain()
    chain.runs(names(0, 6))
    key, body = next(iter(chain.bodies.items()))
    stored = decode(Manifest, encode(chain.head), "m", chain.head.id)
    for broken in (body[:-1], body.replace(b"000003", b"000004"), b""):
        with pytest.raises(Corrupt, match=r"\.runs is damaged .* Restore the object"):
            whole(stored, {key: broken})
    with pytest.raises(PartMissing, match=r"\.runs"):
        whole(stored, {})


def test_what_is_computed_of_runs_is_computed_once(small: None) -> None:
    runs = Runs((SortedRun(id="r", segments=tuple(segment(i, 2) for i in names(0, 6))),))
    assert runs.segments is runs.segments
    assert Runs.of(runs) is runs
    assert runs.rows == 6
    assert runs.bytes_from([0, 3, 6]) == [6, 3, 0]


def test_an_edit_of_a_whole_manifest_is_checked_as_ever() -> None:
    chain = Chain()
    chain.runs(names(0, INLINE_MAX + 1))
    bad = replace(chain.head, id=chain.head.id + 1, lists=())
    with pytest.raises(Corrupt, match="lists stay while the runs do"):
        check_manifest(chain.head, bad)


def test_a_manifest_whose_runs_are_known_has_what_is_known_of_them() -> None:
    """Another process appends: its manifest has the same runs, and nothing is computed anew."""
    chain = Chain()
    known = chain.runs(names(0, INLINE_MAX + 5), names(1_000, 3))
    rival = chain.commit(replace(known, l0=(l0_ref("009999", 9_999),)))
    read = whole(decode(Manifest, encode(rival), "m", rival.id), {}, known)
    assert read == rival
    assert read.runs is known.runs


@pytest.mark.usefixtures("small")
def test_only_lists_that_are_not_known_are_read() -> None:
    chain = Chain()
    known = chain.runs(names(0, 8), names(100, 8))
    made = chain.runs(names(0, 8), names(200, 8))
    (fresh,) = {each.id for each in made.lists} - {each.id for each in known.lists}
    bodies = {KEYS.run_list(fresh): chain.bodies[KEYS.run_list(fresh)]}
    assert whole(decode(Manifest, encode(made), "m", made.id), bodies, known) == made


def test_too_many_lists_that_wait_for_collection_refuse_a_commit_of_this_head(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be an old one: a refusal is held against the newest head before it counts (P2)."""
    monkeypatch.setattr("lithify.manifest.run_lists.RETIRED_LISTS_MAX", 1)
    chain = Chain()
    chain.runs(names(0, 8))
    chain.runs(names(10, 8))
    value = replace(chain.head, id=chain.head.id + 1, nonce="d" * 16, runs=tuple(chain.head.runs[:-1]))
    refused = LISTS.divided(chain.head, value, {})
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, Unavailable)
    assert "1 replaced run lists wait for collection: run 'lithify gc run'" in str(refused.error)
    assert isinstance(LISTS.divided(chain.head, replace(value, sealed=True), {}), tuple)


@pytest.mark.usefixtures("small")
def test_what_an_attempt_may_have_named_is_written_anew() -> None:
    """Its outcome was unknown: the list may be in manifests, and have been retired since."""
    chain = Chain()
    runs = (SortedRun(id="r", segments=tuple(segment(i, 2) for i in names(0, 6))),)
    value, bodies = divided(chain.head, replace(chain.head, id=2, nonce="a" * 16, runs=runs))
    written = {body: key for key, body in bodies.items()}
    retired = RetiredList(id=value.lists[0].id, bytes=1, added_at=2, retired_at=3)
    head = replace(EMPTY, id=3, nonce="b" * 16, retired_lists=(retired,))
    runs = (replace(runs[0], segments=tuple(replace(s, added_at=4) for s in runs[0].segments)),)
    again, bodies = divided(head, replace(head, id=4, nonce="c" * 16, runs=runs), written)
    assert len(bodies) == 1
    assert again.lists[0].id != value.lists[0].id


def test_a_list_of_another_length_than_its_manifest_says_is_refused(small: None) -> None:
    """By hand: the manifest's own checksum is gone then."""
    chain = Chain()
    made = chain.runs(names(0, 6))
    stored = decode(Manifest, encode(made), "m", made.id)
    wrong = replace(stored, lists=(replace(stored.lists[0], segments=5),))
    with pytest.raises(Corrupt, match="lists 6 segments, and its manifest says 5"):
        whole(wrong, chain.bodies)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"\xff", b'{"a":' * 100_000])
def test_what_is_no_run_list_is_refused_whatever_its_manifest_says(body: bytes, small: None) -> None:
    """Somebody repaired the manifest by hand, so that the checksum fits."""
    chain = Chain()
    made = chain.runs(names(0, 6))
    (entry,) = made.lists
    fits = replace(entry, bytes=len(body), checksum=xxhash.xxh3_64_hexdigest(body))
    stored = replace(decode(Manifest, encode(made), "m", made.id), lists=(fits,))
    with pytest.raises(Corrupt, match="is not a valid run list"):
        whole(stored, {KEYS.run_list(entry.id): body})


def test_a_run_list_of_another_partition_is_refused(small: None) -> None:
    chain = Chain()
    made = chain.runs(names(0, 6))
    (entry,) = made.lists
    body = chain.bodies[KEYS.run_list(entry.id)].replace(b'"partition":0', b'"partition":7')
    fits = replace(entry, checksum=xxhash.xxh3_64_hexdigest(body))
    stored = replace(decode(Manifest, encode(made), "m", made.id), lists=(fits,))
    with pytest.raises(Corrupt, match="another partition's run list"):
        whole(stored, {KEYS.run_list(entry.id): body})
