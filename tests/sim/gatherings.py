"""Processes that have several appends in flight together, and commit them in groups (docs/rfcs/0024): plain ones, of an
application, of a producer; in any order, some long after their upload. They have dice of their own, so that histories
without them are as they were."""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from lithify.log.append import append, commit_many
from lithify.manifest.appends import Append
from lithify.manifest.commit import WAS_IT_THERE
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.transactions import TransactionStamp
from lithify.store.errors import (
    AlreadyExists,
    CommitUnknown,
    Fenced,
    InvalidRequest,
    LithifyError,
    NotFound,
    Unavailable,
)
from lithify.store.port import Now, Pause, Request
from tests.sim.actors import TRANSIENT, Life, asks, is_no_fault_of_ours, records
from tests.sim.cast import Actor, Damaged
from tests.sim.places import files_of
from tests.sim.rows import Row, by_key, encode, reference
from tests.sim.site import Handle, Site

__all__ = ["gatherings_of"]

GATHERINGS_SHARE = 0.15
MEMBERS_MAX = 4  # of a round
PATIENCE = 6  # tries of a producer's batch


class Share(Request[range], msgspec.Struct, frozen=True):
    """The append is uploaded, and waits for a commit."""

    edit: Append


async def share(edit: Append) -> range:
    return await Share(edit)


@dataclass
class Sending:
    """One append, as a thread of the process makes it."""

    rows: list[Row]
    files: PartitionFiles
    begin: Callable[[], Coroutine[Any, Any, range]]
    what: str  # kind of append
    coroutine: Coroutine[Any, Any, range] | None = None
    reply: Any = None
    error: Exception | None = None
    edit: Append | None = None  # uploaded, and not committed yet
    told: range | LithifyError | None = None

    @property
    def tokens(self) -> list[str]:
        return [row.token for row in self.rows]

    async def goes_on(self) -> None:
        """Until it waits for a commit, or has ended."""
        self.edit = None
        self.coroutine = coroutine = self.coroutine or self.begin()
        while True:
            try:
                error, self.error = self.error, None
                request = coroutine.send(self.reply) if error is None else coroutine.throw(error)
                self.reply = None
                if isinstance(request, Share):
                    self.edit = request.edit
                    return
                self.reply = await request
            except StopIteration as stop:
                self.told = stop.value
                return
            except LithifyError as error:
                if _ended(coroutine):
                    self.told = error
                    return
                self.error = error


def _ended(coroutine: Any) -> bool:
    return coroutine.cr_frame is None


@dataclass
class Kept:
    """What outlives a crash: what the application under way holds, and how often something was sent."""

    batches: list[list[Row]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    done: int = 0


def gatherings_of(site: Site, seed: int, *, always: bool = False) -> dict[str, Life]:
    dice = random.Random(f"{seed}/gatherings")
    if dice.random() >= GATHERINGS_SHARE and not always:
        return {}
    return {f"gathering {number}": gathering(site) for number in range(dice.choice((1, 1, 2)))}


def gathering(site: Site) -> Life:
    kept = Kept()

    async def live(actor: Actor) -> None:
        unknown: list[tuple[PartitionKeys, str, list[str]]] = []
        while kept.done < 3 * site.appends:
            await Pause(site.rest(actor))
            try:
                handle = await site.open()
                process = Process(site, actor, handle, files_of(handle.keys), kept, unknown)
                await process.rounds()
            except (*TRANSIENT, Fenced, InvalidRequest, AlreadyExists):
                continue

    return live


@dataclass
class Process:
    site: Site
    actor: Actor
    handle: Handle
    files: PartitionFiles  # of whoever commits
    kept: Kept
    unknown: list[tuple[PartitionKeys, str, list[str]]]
    stamp: ProducerStamp | None = None
    batch: list[Row] | None = None  # of the producer, not known to be there

    async def rounds(self) -> None:
        """Raises what a commit of its own may raise."""
        if self.actor.say.random() < 0.5:
            opening = OpenProducer(f"of {self.actor.name}")
            self.stamp = (await self.files.manifest.commit(opening)).result
        tries = 0
        while self.kept.done < 3 * self.site.appends and tries < PATIENCE:
            await Pause(self.site.rest(self.actor))
            await self.handle.fresh(self.actor)
            tries = tries + 1 if await self._round() else 0
            if self.unknown and self.actor.say.random() < 0.5:
                settle = self.actor.say.random() < 0.3
                await asks(self.site, self.files, self.handle, *self.unknown.pop(), settle=settle)

    async def _round(self) -> bool:
        """Whether something of it failed."""
        say, waiting = self.actor.say, list[Sending]()
        sendings = [await self._begun(what) for what in self._kinds()]
        for sending in say.sample(sendings, len(sendings)):
            await sending.goes_on()
        while waiting := [each for each in sendings if each.edit is not None]:
            if say.random() < 0.2:
                await Pause(self.site.rest(self.actor))
            group = say.sample(waiting, say.randint(1, len(waiting)))
            await self._commit(group)
        failed = False
        for sending in sendings:
            failed = self._is_told(sending) or failed
        return failed

    def _kinds(self) -> list[str]:
        kinds = ["plain"] * self.actor.say.randint(1, MEMBERS_MAX - 1)
        if self.actor.say.random() < 0.5:
            kinds.append("application")
        if self.stamp is not None and self.actor.say.random() < 0.7:
            kinds.append("producer")
        return kinds

    async def _begun(self, what: str) -> Sending:
        name = f"{self.actor.name}.{self.kept.done}"
        self.kept.done += 1
        rows, how = await self._holds(what, name)
        config = self.handle.config
        stored = sorted(rows, key=by_key) if config.order == "key" else rows
        body = encode(stored)
        ref, files = reference(stored, body, config.order), self.files.beside()
        how |= {"l0_segments_max": config.l0_segments_max, "expiration_ms": config.transactional_id_expiration_ms}
        return Sending(rows, files, partial(append, files, body, ref, commit=share, **how), what)

    async def _holds(self, what: str, name: str) -> tuple[list[Row], dict[str, Any]]:
        fresh = records(self.site, self.actor, name, await Now())
        if what == "application":
            version = len(self.kept.committed)
            if len(self.kept.batches) == version:
                self.kept.batches.append(fresh)
            return self.kept.batches[version], {"transaction": TransactionStamp(f"of {self.actor.name}", version)}
        if what == "producer":
            self.batch = self.batch or fresh
            return self.batch, {"producer": self.stamp}
        return fresh, {}

    async def _commit(self, group: list[Sending]) -> None:
        for sending in group:
            self.files.learn(sending.files)
        answers = await commit_many(self.files, [each.edit for each in group if each.edit is not None])
        appended = sum(isinstance(answer, range) for answer in answers)
        if 0 < appended < len(answers):
            self.site.world.counts["group: some refused"] += 1
        self.site.world.counts["group of several" if appended > 1 else "group of one"] += 1
        for sending, answer in zip(group, answers, strict=True):
            sending.files.learn(self.files)
            sending.reply, sending.error = (answer, None) if isinstance(answer, range) else (None, answer)
            await sending.goes_on()

    def _is_told(self, sending: Sending) -> bool:
        """The oracle hears what the sender was told. Whether it failed."""
        told = sending.told
        if isinstance(told, range):
            self.site.oracle.acknowledged(self.handle.keys, sending.tokens, told)
            self._moves_on(sending)
            return False
        if isinstance(told, CommitUnknown):
            is_no_fault_of_ours(told)
            if sending.what == "plain":
                self.unknown.append((self.handle.keys, told.token, sending.tokens))
        elif not isinstance(told, Unavailable | NotFound | Damaged | Fenced | InvalidRequest | AlreadyExists):
            assert told is not None
            raise told
        elif sending.what == "plain" and WAS_IT_THERE not in getattr(told, "__notes__", ()):
            self.site.oracle.denied(self.handle.keys, sending.tokens)
        return True

    def _moves_on(self, sending: Sending) -> None:
        if sending.what == "application":
            self.kept.committed.append(len(self.kept.committed))
        if sending.what == "producer":
            assert self.stamp is not None
            self.batch = None
            sequence = self.stamp.sequence + len(sending.rows)
            self.stamp = ProducerStamp(self.stamp.id, self.stamp.epoch, sequence)
