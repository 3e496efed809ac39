"""Run lists: where a long manifest's runs are stored, so that no append writes them again (docs/rfcs/0027).

In memory a manifest is whole: `runs` has every run, and `lists` says in which objects the first segments of these are
listed. What an edit makes of the runs, it makes of all of them, and need not know about lists. They are read when a
manifest is read, and written before the manifest that is the first to name them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import xxhash
from msgspec.structs import replace

from lithify.manifest.edits import Refused
from lithify.manifest.keys import PartitionKeys, RunListId
from lithify.manifest.list_layout import Row, as_runs, laid_out, with_lists
from lithify.manifest.model import (
    FORMAT_LISTS,
    KIND,
    RETIRED_LISTS_MAX,
    Manifest,
    RetiredList,
    RunList,
    SegmentRef,
    SortedRun,
)
from lithify.manifest.parts import PartMissing, Written
from lithify.manifest.pins import lists_waiting_text
from lithify.manifest.runs import Runs
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.port import Get, together

__all__ = ["RunListFile", "RunLists", "check_listed"]


class RunListFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field=KIND, tag="runs"):
    """What a run list holds: runs in their order, of which the first and the last may go on in its neighbours.

    In a segment `added_at` 0 (which is left out) means the manifest that first named this list. So if its commit loses
    a race, and tries the next number, the list is the same.
    """

    format: int
    topic: str
    topic_id: str
    partition: int
    runs: tuple[SortedRun, ...]


# Made here, under the import's lock (lithify.manifest.codec says why).
_decoder = msgspec.json.Decoder(RunListFile)
_encoder = msgspec.json.Encoder()


class RunLists:
    """How a partition's manifests are stored in parts."""

    def __init__(self, keys: PartitionKeys) -> None:
        self._keys = keys

    async def whole(self, value: Manifest, near: Manifest | None) -> Manifest:
        """`value`, as it was decoded, with all its runs. Lists that `near` has too are not read again. Raises
        PartMissing, Corrupt."""
        if near is not None and value.lists == near.lists and value.runs == _own(near):
            return replace(value, runs=near.runs)  # and all that is known of them
        known = {} if near is None or not value.lists else {each.id: as_runs(rows) for each, rows in with_lists(near)}
        wanted = [each for each in value.lists if each.id not in known]
        replies = await together([Get(self._keys.run_list(each.id)) for each in wanted]) if wanted else ()
        for each, found in zip(wanted, replies, strict=True):
            key = self._keys.run_list(each.id)
            if found is None:
                raise PartMissing(key)
            known[each.id] = _listed(each, found.body, key)
        return replace(value, runs=Runs(_joined((*(known[each.id] for each in value.lists), value.runs))))

    def divided(
        self, head: Manifest | None, value: Manifest, written: Written
    ) -> tuple[Manifest, Mapping[str, bytes]] | Refused:
        """`value`, which an edit made of `head`, with the lists that it is committed with; and the bodies of those that
        nobody has written yet, by key. `written`: those that earlier attempts of this commit wrote. Refused if too many
        lists wait for collection."""
        if head is not None and value.runs is head.runs:
            return replace(value, format=value.format_needed), {}
        lists, bodies = list[RunList](), dict[str, bytes]()
        for span in laid_out(head, value.runs):
            if span.stored is not None:
                lists.append(span.stored)
                continue
            body = self._encoded(span.rows, value.id)
            name = self._written_as(body, written, value)
            if name is None:
                name = RunListId.of(value.id, value.nonce, len(bodies))
                bodies[self._keys.run_list(name)] = body
            lists.append(
                RunList(
                    id=name,
                    segments=len(span.rows),
                    bytes=len(body),
                    added_at=value.id,
                    checksum=xxhash.xxh3_64_hexdigest(body),
                )
            )
        retired = (*value.retired_lists, *_retired_by(head, value.id, lists))
        if len(retired) > max(RETIRED_LISTS_MAX, len(value.retired_lists)) and not value.sealed:
            return Refused(Unavailable(f"{value.topic}/{value.partition}: {lists_waiting_text(value)}"))
        value = replace(value, runs=Runs.of(value.runs), lists=tuple(lists), retired_lists=retired)
        return replace(value, format=value.format_needed), bodies

    def _written_as(self, body: bytes, written: Written, value: Manifest) -> str | None:
        """The id under which an earlier attempt of this commit wrote `body`, if that may still be named.

        SUBTLE! Not below the orphan floor. 1. We write list 8-a, and lose the race for manifest 8. 2. We stall;
        manifests are collected up to 20, and a sweep deletes 8-a, which nothing names. 3. Our edit applies to head 30,
        and would name it. Test: tests/protocol/test_p23_run_lists.py
        """
        name = self._keys.run_list_id(written.get(body, ""))
        if name is None or RunListId.number(name) < value.orphan_floor:
            return None
        # An attempt whose outcome was unknown may have named it: then it has a life of its own.
        taken = any(each.id == name for each in (*value.lists, *value.retired_lists))
        return None if taken else name

    def _encoded(self, rows: Iterable[Row], number: int) -> bytes:
        own = (
            row._replace(segment=replace(row.segment, added_at=0)) if row.segment.added_at == number else row
            for row in rows
        )
        file = RunListFile(
            format=FORMAT_LISTS,
            topic=self._keys.topic,
            topic_id=self._keys.topic_id,
            partition=self._keys.partition,
            runs=as_runs(own),
        )
        return _encoder.encode(file) + b"\n"


def _retired_by(head: Manifest | None, number: int, lists: Iterable[RunList]) -> Iterator[RetiredList]:
    """What is retired by manifest `number`, which follows `head` and has `lists`."""
    stay = frozenset(each.id for each in lists)
    for each in () if head is None else head.lists:
        if each.id not in stay:
            yield RetiredList(id=each.id, bytes=each.bytes, added_at=each.added_at, retired_at=number)


def check_listed(each: RunList, body: bytes, key: str) -> None:
    """Raises Corrupt if `body`, stored under `key`, is not the list `each`."""
    _listed(each, body, key)


def _listed(each: RunList, body: bytes, key: str) -> tuple[SortedRun, ...]:
    """What the list `each` holds. Raises Corrupt if this is not it."""
    if len(body) != each.bytes or xxhash.xxh3_64_hexdigest(body) != each.checksum:
        raise Corrupt(f"{key} is damaged (it fails its checksum); nothing was changed. Restore the object", key)
    try:
        file = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # its manifest was repaired by hand
        raise Corrupt(f"{key} is not a valid run list; nothing was changed. Restore the object", key) from None
    if not key.startswith(PartitionKeys(file.topic, file.topic_id, file.partition).root):
        raise Corrupt(f"{key} is another partition's run list; nothing was changed. Restore the original", key)
    segments = tuple(segment for run in file.runs for segment in run.segments)
    if len(segments) != each.segments:
        told = f"{len(segments)} segments, and its manifest says {each.segments}"
        raise Corrupt(f"{key} lists {told}. Restore the manifest", key)
    if all(segment.added_at for segment in segments):
        return file.runs
    return tuple(replace(run, segments=_dated(run.segments, each.added_at)) for run in file.runs)


def _dated(segments: Iterable[SegmentRef], added_at: int) -> tuple[SegmentRef, ...]:
    return tuple(segment if segment.added_at else replace(segment, added_at=added_at) for segment in segments)


def _own(manifest: Manifest) -> tuple[SortedRun, ...]:
    """The runs that it lists itself."""
    return Runs.of(manifest.runs).after(sum(each.segments for each in manifest.lists))


def _joined(parts: Iterable[Sequence[SortedRun]]) -> list[SortedRun]:
    """The runs of all parts, where the last run of a part may go on as the first of the next."""
    found: list[SortedRun] = []
    for part in parts:
        if found and part and found[-1].id == part[0].id:
            found[-1] = replace(found[-1], segments=found[-1].segments + part[0].segments)
            part = part[1:]
        found += part
    return found
