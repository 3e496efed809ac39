"""Writers that upload the segments of a batch for as long as they like, and have one commit append them: drivers that
die at any step and begin again, rivals over one batch, drivers that come back after their upload is gone (P22,
docs/rfcs/0019). They have dice of their own, so that histories without them are as they were."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple
from unittest.mock import patch

import xxhash
from msgspec.structs import replace

from lithify.log.append import OF_UPLOAD, outcome, partition_of
from lithify.log.upload import append_uploaded, begin_upload, put_segment
from lithify.manifest.commit import WAS_IT_THERE
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import UPLOAD_TTL_MS_MAX, SegmentRef, Upload
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload, find_upload
from lithify.store.errors import AlreadyExists, CommitUnknown, InvalidRequest, NotFound, Unavailable
from lithify.store.port import NewId, Now, Pause
from tests.sim import services
from tests.sim.actors import TRANSIENT, Life, is_no_fault_of_ours, records, transactional
from tests.sim.cast import Actor, Damaged, Violation
from tests.sim.judge.uploads import AtMost
from tests.sim.places import files_of
from tests.sim.rows import Row, by_key, encode, reference
from tests.sim.site import Handle, Site

__all__ = ["uploads_of"]

UPLOADS_SHARE = 0.08
BOUNDS = (AtMost(), AtMost(2, 3), AtMost(1, 2))
PARTS_MAX = 3  # of a batch
LASTING_MS = (1_500, 10_000, 100_000)
LONG = 6  # grace periods, or rests: for so long a task may upload
COMMITS_MAX = 6
ASKED_LATER_SHARE = 0.4
ANEW_SHARE = 0.2  # of batches; other drivers go on with what they know
SWEEPER_SHARE = 0.7
CROWDED_SHARE = 0.25  # of histories with fewer places for applications than there are of them


@dataclass
class Batch:
    """What one write holds. It survives its drivers; who sent it knows no more of it than that."""

    id: str
    parts: list[list[Row]]
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)  # (topic id, upload): not certainly in vain

    @property
    def tokens(self) -> list[str]:
        return [row.token for part in self.parts for row in part]


@dataclass
class Writes:
    """The batches of one query, that its drivers write one after the other."""

    name: str
    parts_max: int
    chosen: bool  # a batch has the same id of an upload whoever begins it
    numbered: bool  # it has a version, too (RFC 0011)
    batches: list[Batch] = field(default_factory=list)
    done: set[int] = field(default_factory=set)  # appended, or given up
    unknown: "list[Unknown]" = field(default_factory=list)  # outcomes that nobody knows

    async def batch(self, site: Site, actor: Actor, number: int) -> Batch:
        name = f"{self.name}.{number}"
        parts = range(actor.say.randint(1, self.parts_max))
        made = [records(site, actor, f"{name}.{part}", await Now()) for part in parts]
        if len(self.batches) == number:
            self.batches.append(Batch(xxhash.xxh3_64_hexdigest(name.encode()), made))
        return self.batches[number]


class Unknown(NamedTuple):
    keys: PartitionKeys
    token: str
    upload: str
    batch: Batch


def uploads_of(
    site: Site, seed: int, stack: ExitStack, *, always: bool = False, crowds: bool = False
) -> dict[str, Life]:
    dice = random.Random(f"{seed}/uploads")
    if dice.random() >= UPLOADS_SHARE and not always:
        return {}
    most = dice.choice(BOUNDS)
    stack.enter_context(patch("lithify.manifest.uploads.UPLOADS_MAX", most.uploads))
    stack.enter_context(patch("lithify.manifest.uploads.UPLOADED_SEGMENTS_MAX", most.segments))
    site.oracle.judge.uploads_max = most
    found: dict[str, Life] = {}
    for number in range(dice.choice((1, 1, 2))):
        chosen = dice.random() < 0.7
        numbered, rivals = dice.random() < 0.5 or crowds, dice.choice((1, 2, 2))
        writes = Writes(f"upload{number}", min(PARTS_MAX, most.segments), chosen, numbered)
        # Rivals that share neither an id nor a version are two writes of the same, and both are appended.
        for rival in range(rivals if chosen or numbered else 1):
            found[f"uploader {number}{rival}"] = uploader(site, writes)
    crowded = dice.random() < CROWDED_SHARE or crowds
    if crowded:
        for module in ("manifest.transactions", "gc.reachable"):
            stack.enter_context(patch(f"lithify.{module}.TRANSACTIONS_MAX", 1))
        site.config["transactional.id.expiration.ms"] = "50"
        found |= {f"query {number}": transactional(site) for number in range(2)}
    if dice.random() < SWEEPER_SHARE or crowded:
        found["sweeper of uploads"] = services.collector(site, 1.0)
    return found


def uploader(site: Site, writes: Writes) -> Life:
    async def live(actor: Actor) -> None:
        driver: Driver | None = None
        while len(writes.done) < site.appends or writes.unknown:
            await Pause(site.rest(actor))
            number = len(writes.done)
            try:
                if writes.unknown and actor.say.random() < 0.4:
                    await _asked(site, actor, writes.unknown.pop(0))
                if number == site.appends:
                    continue
                if driver is None or actor.say.random() < ANEW_SHARE:
                    handle = await site.open()
                    driver = Driver(site, actor, writes, handle, files_of(handle.keys))
                await driver.handle.fresh(actor)
                await driver.write(number, await writes.batch(site, actor, number))
            except (*TRANSIENT, AlreadyExists):
                driver = driver if actor.say.random() < 0.5 else None

    return live


async def _asked(site: Site, actor: Actor, unknown: Unknown) -> range | None:
    """What becomes of a commit is asked, perhaps much later. That it certainly was not is true, where nobody else has
    sent the same."""
    batch, sent_as = unknown.batch, (unknown.keys.topic_id, unknown.upload)
    try:
        offsets = await outcome(files_of(unknown.keys), unknown.token, settle=actor.say.random() < 0.3)
    except TRANSIENT:
        return None
    site.world.counts[f"outcome of an upload: {'not appended' if offsets is None else 'appended'}"] += 1
    if offsets is None and batch.sent[sent_as] == sum(batch.sent.values()) == 1:
        there = site.oracle.truth(unknown.keys).contents.at
        if any(token in there for token in batch.tokens):
            raise Violation(f"{actor.name}: {batch.tokens[0]} was said not to be appended, and is (P22)")
    if offsets is None:
        batch.sent[sent_as] -= 1
    return offsets


@dataclass
class Driver:
    """Of one run of a write."""

    site: Site
    actor: Actor
    writes: Writes
    handle: Handle
    files: PartitionFiles

    async def write(self, number: int, batch: Batch) -> None:
        upload = await self._begun(batch)
        mine, topic_id = upload.name, self.handle.keys.topic_id
        others = [name for (of, name), count in batch.sent.items() if of == topic_id and name != mine and count > 0]
        if others and not self.writes.numbered:
            self.writes.done.add(number)  # nobody can tell whether it is there: it is given up
            self.site.world.counts["upload given up"] += 1
            return
        segments = await self._uploaded(upload, batch)
        await self._refused(upload, segments)
        if self.actor.say.random() < 0.1:
            return  # its driver is gone
        for _ in range(COMMITS_MAX):
            offsets = await self._committed(upload, segments, number, batch)
            if offsets is not None:
                self._known(batch, offsets)
                self._asks_later(upload, batch)
                self.writes.done.add(number)
                if self.actor.say.random() < 0.6:
                    return
            await Pause(self._a_while())

    async def _begun(self, batch: Batch) -> Upload:
        lasts_ms = self.actor.say.choice(LASTING_MS)
        self.site.oracle.judge.asks_to_pin(self.actor.name, lasts_ms)
        if self.actor.say.random() < 0.1:
            self._is_refused("for too long", lambda: BeginUpload(batch.id, UPLOAD_TTL_MS_MAX + 1))
        return await begin_upload(self.files, batch.id if self.writes.chosen else None, lasts_ms)

    def _a_while(self) -> int:
        most_ms = LONG * max(self.site.grace_ms, self.site.rest_ms)
        return int(self.actor.say.random() ** 3 * most_ms)

    async def _uploaded(self, upload: Upload, batch: Batch) -> tuple[SegmentRef, ...]:
        """Each part once; now and then it is uploaded twice, as by a task that was repeated."""
        order, found = self.handle.config.order, list[SegmentRef]()
        for part in batch.parts:
            stored = sorted(part, key=by_key) if order == "key" else part
            body = encode(stored)
            attempts = 2 if self.actor.say.random() < 0.1 else 1
            refs = [await self._put(upload, body, reference(stored, body, order)) for _ in range(attempts)]
            found.append(refs[-1])
        return tuple(found)

    async def _put(self, upload: Upload, body: bytes, ref: SegmentRef) -> SegmentRef:
        await Pause(self._a_while())
        return await put_segment(self.files.keys, upload.name, body, ref)

    async def _committed(
        self, upload: Upload, segments: tuple[SegmentRef, ...], number: int, batch: Batch
    ) -> range | None:
        """None: its outcome is unknown."""
        numbered, sent_as = self.writes.numbered, (self.handle.keys.topic_id, upload.name)
        stamp = TransactionStamp(self.writes.name, number) if numbered else None
        batch.sent[sent_as] += 1
        try:
            return await append_uploaded(self.files, upload.name, segments, self.handle.config, stamp)
        except CommitUnknown as error:
            is_no_fault_of_ours(error)
            unknown = Unknown(self.handle.keys, error.token, upload.name, batch)
            if self.actor.say.random() < 0.5:
                return await _asked(self.site, self.actor, unknown)
            self.writes.unknown.append(unknown)
            return None
        except (Unavailable, NotFound, Damaged, AlreadyExists) as error:
            if WAS_IT_THERE not in getattr(error, "__notes__", ()):
                batch.sent[sent_as] -= 1
                self._certainly_not(batch)
            raise

    def _certainly_not(self, batch: Batch) -> None:
        """Whoever was told so of a batch that nobody else has sent finds that it is not there."""
        there = self.site.oracle.truth(self.handle.keys).contents.at
        if not any(batch.sent.values()) and any(token in there for token in batch.tokens):
            raise Violation(f"{self.actor.name}: {batch.tokens[0]} was said not to be appended, and is (P22)")

    def _known(self, batch: Batch, offsets: range) -> None:
        truth = self.site.oracle.truth(self.handle.keys)
        if self.writes.name not in truth.applications.forgotten:  # else it may have been appended again meanwhile
            self.site.oracle.acknowledged(self.handle.keys, batch.tokens, offsets)
        self.site.world.counts["upload appended"] += 1
        if truth.head is not None and offsets.stop < truth.head.next_offset:
            self.site.world.counts["upload known later"] += 1

    def _asks_later(self, upload: Upload, batch: Batch) -> None:
        """As if it had not been answered; by then the upload may be gone."""
        head = self.site.oracle.truth(self.handle.keys).head
        entry = None if head is None else find_upload(head, upload.name)
        if entry is None or entry.appended is None or self.actor.say.random() >= ASKED_LATER_SHARE:
            return
        token = f"{partition_of(self.files)}:{entry.appended.number}:nonce:{OF_UPLOAD}{upload.name}"
        self.writes.unknown.append(Unknown(self.handle.keys, token, upload.name, batch))

    async def _refused(self, upload: Upload, segments: tuple[SegmentRef, ...]) -> None:
        """What is another upload's, what is given twice, and too much at once."""
        if self.actor.say.random() >= 0.1:
            return
        most, ids = self.site.oracle.judge.uploads_max.segments, [await NewId() for _ in range(PARTS_MAX + 1)]
        ref = segments[0]
        strange = replace(ref, id=SegmentId.for_append(upload.begun_at, ids[0]))
        self._is_refused("a stranger", lambda: AppendUploaded(upload.name, (strange,), 9))
        self._is_refused("one twice", lambda: AppendUploaded(upload.name, (ref, ref), 9))
        many = tuple(replace(ref, id=SegmentId.for_upload(upload.name, each)) for each in ids[: most + 1])
        if len(many) > most:
            self._is_refused("too many", lambda: AppendUploaded(upload.name, many, 9))

    def _is_refused(self, what: str, edit: Callable[[], object]) -> None:
        try:
            edit()
        except InvalidRequest:
            self.site.world.counts[f"upload refused: {what}"] += 1
        else:
            raise Violation(f"{self.actor.name} uploads {what} (P22)")
