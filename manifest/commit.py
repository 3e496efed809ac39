"""Numbered files: finding the head of a chain and committing the next one (which commit_point.py creates).

One abstraction serves `.manifest`, `.compactor`, `.boundary`, `.topic` and `.warehouse` (docs/rfcs/0002). The rules are
P1-P4 of docs/protocol.md; each race is described beside the line that prevents it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from lithify.manifest.ages import young
from lithify.manifest.codec import LaterFormat, check_belongs, check_repaired, decode
from lithify.manifest.commit_point import Attempt, Settled, Target, create
from lithify.manifest.edits import Already, Edit, Next, Refused
from lithify.manifest.gallop import NEAR_MAX, NEAR_SMALL, STRIDES_FIRST, STRIDES_FIRST_SMALL, end_of_stretch
from lithify.manifest.keys import Chain
from lithify.manifest.listed import where_to_begin
from lithify.manifest.model import Boundary, Collected, Numbered
from lithify.manifest.parts import PartMissing, Parts, Written, discard, store_parts
from lithify.manifest.version import Committed, Version
from lithify.store.errors import CommitUnknown, Corrupt, LithifyError, Unavailable
from lithify.store.in_step import both
from lithify.store.port import Get, Head, NewId, Now, Object, Pause, together

__all__ = ["FRESH_MS", "WAS_IT_THERE", "Lineage"]

# Of one edit, at successive numbers: with 40 concurrent writers one commit takes about 40 attempts.
COMMIT_ATTEMPTS_MAX = 1_000
FRESH_MS = 60_000  # how long a head may be built upon without another look; well below any grace period (P17)
WAS_IT_THERE = "it is not known whether this happened earlier; no trace of it is left"
SEARCH_ROUNDS_MAX = 32  # restarts of one head search, because the boundary overtook it

S = TypeVar("S", bound=Numbered)
R = TypeVar("R")


class Lineage(Generic[S]):
    """One client's view of a chain: the newest version it has seen, and the protocol to continue from there.

    `boundary` is the chain that says which numbers of this one are dead (`dead_in`). None: its files are never deleted,
    so an absent N+1 alone proves that N is the head; and they are small, so a search reads what it looks at.
    """

    def __init__(
        self,
        chain: Chain,
        kind: type[S],
        check: Callable[[S | None, S], None],
        boundary: "Lineage[Boundary] | None" = None,
        dead_in: Callable[[Boundary], int] = lambda _: 0,
        committed: Callable[[S | None, S], None] | None = None,
        parts: Parts[S] | None = None,
    ) -> None:
        self.chain = chain
        self.kind = kind
        self._check = check
        self._boundary = boundary
        self._dead_in = dead_in
        self._committed = committed
        self._parts = parts
        self._seen: Version[S] = Version(0, None)
        self._seen_ms = 0
        self._searched = False  # whether `seen` was the head once
        self._first: Version[S] = Version(0, None)  # where the first search begins
        self._ahead: Version[S] | None = None  # the number after `seen`, found by `moved`
        self._stride = 0  # how many numbers a warm search last found beyond the next one

    @property
    def seen(self) -> Version[S]:
        """The newest version this client has read or written. A newer one may exist."""
        return self._seen

    def learn(self, other: "Lineage[S]") -> None:
        """Know what `other`, of the same chain, has seen. `other` may be in use by another thread.

        SUBTLE! Read its time before its version. 1. We read the version it saw a minute ago. 2. It sees a newer, and
        when. 3. We read that time: an old version would count as fresh. Test: tests/manifest/test_learning.py
        """
        searched = other._searched
        seen_ms = other._seen_ms
        seen = other._seen
        if (seen.number, seen_ms) > (self._seen.number, self._seen_ms):
            self._seen, self._seen_ms = seen, seen_ms
        self._searched = self._searched or searched

    async def read(self, number: int) -> Version[S] | None:
        """Version `number`, or None if it does not exist (yet, or any more). If it is dead and a part of it is gone, it
        has no content (`lacks`)."""
        found = await self._stored(number)
        return None if found is None else await self._dead_or_whole(found)

    async def glance(self, number: int) -> Version[S] | None:
        """As `read`, but a file that is damaged, or of a later release, is there without its content: if it is the
        head, whoever needs it is told later; what came after it does not need it."""
        try:
            return await self.read(number)
        except (Corrupt, LaterFormat):
            return Version(number, None)

    async def _stored(self, number: int, found: Object | None = None) -> Version[S] | None:
        """As `read`, but does not ask whether it is dead. `found`: the object, if it was read before."""
        found = found or await Get(self.chain.key(number))
        return None if found is None else await self._with_parts(self._decoded(number, found), found.body)

    async def _with_parts(self, version: Version[S], body: bytes) -> Version[S]:
        """`version`, as it was decoded from `body`, with what its parts hold."""
        if self._parts is None or version.value is None:
            return version
        try:
            value = await self._parts.whole(version.value, self._seen.value)
        except PartMissing as missing:
            return replace(version, value=None, lacks=missing.key)
        check_repaired(value, body, self.chain.key(version.number))
        return replace(version, value=value)

    async def _dead_or_whole(self, version: Version[S]) -> Version[S]:
        """`version`; raises Corrupt if it lacks a part and is not dead.

        SUBTLE! Parts are deleted once all manifests that name them are dead, and these may still be there (P23). So ask
        the boundary, after a part was found missing. Test: tests/protocol/test_p23_run_lists.py
        """
        if version.lacks and version.number > await self.dead():
            named = self.chain.key(version.number)
            raise Corrupt(
                f"{version.lacks} is missing, and {named} needs it; nothing was changed. Restore the object",
                version.lacks,
            )
        return version

    def _decoded(self, number: int, found: Object) -> Version[S]:
        key = self.chain.key(number)
        value = decode(self.kind, found.body, key, number)
        check_belongs(value, key)
        return Version(number, value, found.modified_ms, tag=found.tag)

    async def recent(self) -> Version[S]:
        """The newest version seen, if that was in the last minute; else the head.

        It would be safe to build on an older one, but its successor may be dead by now, and a commit on a dead number
        can only be reported as unknown (P4).
        """
        fresh = young(self._seen_ms, await Now(), FRESH_MS)
        return self._seen if self._searched and fresh else await self.refresh()

    async def moved(self) -> bool:
        """Whether there is a number after the newest one seen: one GET, and those of new parts. That there is none
        proves nothing. Otherwise the next search begins there."""
        self._ahead = await self.glance(self._seen.number + 1)
        return self._ahead is not None

    async def refresh(self) -> Version[S]:
        """The head (P3). Costs two GETs, one after the other, if nothing has changed."""
        if self._searched or self._boundary is None:
            found = await self._search(self._seen if self._searched else self._first)
        else:
            found = await self._first_search(self._boundary)
        for _ in range(SEARCH_ROUNDS_MAX):
            # SUBTLE! An absent N+1 does not prove that N is the head. 1. We read N. 2. Others commit far ahead; N and
            # N+1 are collected. 3. We find no N+1. The proof is a boundary that is read after N+1 was found absent, and
            # is still below N. So it is never asked for together with N+1, however much that would save; N's content
            # may be, if it is what was found there. Test: tests/protocol/test_p03_head_search.py
            if found is None or found.whole:
                dead = await self.dead()
            else:
                dead, found = await self._read_beside(found)
            if found is not None and found.number > dead:
                found = await self._dead_or_whole(found)
            if found is not None and found.whole and (found.number > dead or found.number == dead == 0):
                await self._saw(found)
                return found
            found = await self._search(Version(dead, None))
        raise Unavailable(f"{self.chain.prefix}: collection overtook the search for the head; retry")

    def suppose(self, number: int) -> None:
        """Others say they have seen `number`: look there first. If it is not there, a search begins at 1."""
        self._first = Version(max(number - 1, self._first.number), None)

    async def _first_search(self, boundary: "Lineage[Boundary]") -> Version[S] | None:
        """SUBTLE! A listing may be old, or not all of it. It says where to begin; then the next number must be absent,
        and the boundary be read after that, as ever. Test: tests/protocol/test_p03_first_search.py"""
        begin = await where_to_begin(self.chain, boundary.suppose)
        tag = "" if begin.stored is None else begin.stored.tag
        low: Version[S] = Version(begin.number, None, tag=tag, stored=begin.stored, since=begin.since)
        if begin.is_end:
            return low
        # The boundary is asked for beside a search that may begin at 1, which is right if nothing was collected yet.
        # Otherwise that ends too low, or at a manifest that a checkpoint keeps.
        dead, found = await both(self.dead(), self._search(low))
        return await self._search(Version(dead, None)) if dead and (found is None or found.number <= dead) else found

    async def _read_beside(self, there: Version[S]) -> tuple[int, Version[S] | None]:
        """The largest dead number, and version `there`, which a search has found. None: gone, or damaged and dead."""

        async def stored() -> tuple[Version[S] | None, LithifyError | None]:
            try:
                return await self._stored(there.number, there.stored), None
            except (Corrupt, LaterFormat) as error:
                return None, error

        dead, (found, unreadable) = await both(self.dead(), stored())
        # SUBTLE! Somebody put a copy of a manifest, or a part of a backup, at a number far above the head. A search
        # that lists nothing does not come upon it: there would be two heads. So what was listed counts only if every
        # number from the boundary to it was. Test: tests/protocol/test_p03_first_search.py
        if there.since > dead + 1:
            return dead, None
        if unreadable is not None:
            dead = await self.dead()
            if there.number > dead:
                raise unreadable
        # SUBTLE! 1. The search finds N, and the boundary is below it. 2. We stand still; N is collected. 3. A stalled
        # writer creates N anew. 4. We read that. What the search found lived; if this is another object, only a later
        # boundary can tell. Test: tests/protocol/test_p03_head_search.py
        if found is not None and (not found.tag or found.tag != there.tag):
            dead = await self.dead()
        return dead, found

    async def _search(self, low: Version[S]) -> Version[S] | None:
        """The last number of the dense stretch above `low` (seen, or the boundary); not always with its content. None:
        what was found has vanished again."""
        # `there`: whether `low` itself may be the answer: an empty chain is one, a boundary with nothing above is not.
        there, near = low.number == 0 or low.stored is not None, None
        if low.value is not None or (there and self._searched):
            step, self._ahead = self._ahead, None
            if step is None or step.number != low.number + 1:
                step = await self.glance(low.number + 1)
            if step is None:
                return low
            low, there, near = step, True, min(self._stride + self._stride // 2, NEAR_MAX)
        objects: dict[int, Object] = {}
        tags: dict[int, str] = {}

        async def look(numbers: Sequence[int]) -> Sequence[bool]:
            keys = map(self.chain.key, numbers)
            if self._boundary is not None:
                infos = await together([Head(key) for key in keys])
                tags.update((number, info.tag) for number, info in zip(numbers, infos, strict=True) if info)
                return [info is not None for info in infos]
            replies = await together([Get(key) for key in keys])  # small files: the last one need not be asked again
            objects.update((number, found) for number, found in zip(numbers, replies, strict=True) if found is not None)
            return [found is not None for found in replies]

        strides, least = (STRIDES_FIRST_SMALL, NEAR_SMALL) if self._boundary is None else (STRIDES_FIRST, 0)
        end = await end_of_stretch(low.number, look, strides, max(near or 0, least))
        if end is None:
            raise Unavailable(
                f"{self.chain.prefix}: every number seems to exist, so something other than the store may be "
                "answering. Check proxies, and retry"
            )
        if near is not None:
            self._stride = end - low.number
        if end == low.number:
            return low if there else None
        if end in objects:
            return self._decoded(end, objects[end])
        return Version(end, None, tag=tags.get(end, ""), since=low.since)

    async def _saw(self, version: Version[S]) -> None:
        if version.number >= self._seen.number:
            self._seen, self._seen_ms, self._searched = version, await Now(), True

    async def commit(self, edit: Edit[S, R]) -> Committed[S, R]:
        """Apply `edit` to the head and create the next number; after a lost race, to the new head (P1, P2, P4).

        Costs one PUT and one GET if the client is warm and has no rivals. Raises the edit's own refusal, CommitUnknown
        if it may have happened, Unavailable if it certainly did not.
        """
        outcome = await self.offer(edit)
        if isinstance(outcome, Refused):
            raise outcome.error
        return outcome

    async def offer(self, edit: Edit[S, R]) -> Committed[S, R] | Refused:
        """As `commit`, but returns the edit's own refusal.

        SUBTLE! For callers that give work up because of a refusal. An exception says nothing about the edit: the store
        may have refused access, or hold a file of a newer release. Test: tests/compactor/test_refused_access.py
        """
        attempt = Attempt()
        try:
            outcome = await self._commit(edit, attempt)
            if isinstance(outcome, Refused) and attempt.open_number:
                if not outcome.final:
                    raise outcome.error
                outcome.error.add_note(WAS_IT_THERE)
            elif isinstance(outcome, Refused):
                await discard(attempt.parts)
            return outcome
        except LithifyError as error:
            if attempt.open_number == 0:
                await discard(attempt.parts)
                raise
            raise CommitUnknown(
                f"{self.chain.key(attempt.open_number)}: whether this commit happened is not known ({error}); "
                "nothing was deleted. Look it up before retrying",
                f"{attempt.open_number}:{attempt.nonce}",
            ) from error

    async def _commit(self, edit: Edit[S, R], attempt: Attempt) -> Committed[S, R] | Refused:
        head, verified = await self.recent(), False
        for losses in range(COMMIT_ATTEMPTS_MAX):
            number = head.number + 1
            now_ms = await Now()
            verdict = edit.apply(head.value, number, now_ms)
            if isinstance(verdict, Already):
                return Committed(head, verdict.result, repeated=True)
            made = await self._successor(head.value, verdict, number, now_ms, attempt.parts)
            if isinstance(made, Refused):
                if not verified:
                    head, verified = await self.refresh(), True
                    continue
                # SUBTLE! A refusal speaks of this head only. An earlier attempt with an unknown outcome may have
                # succeeded without a trace in this head: 1. It appended a segment. 2. The segment was compacted and
                # collected, and its id fell below the orphan floor. 3. We are refused. `offer` then raises
                # CommitUnknown, unless the refusal is final. Test: tests/protocol/test_p07_orphan_floor.py
                return made
            value, result, bodies = made
            self._check(head.value, value)
            before = attempt.open_number, attempt.nonce
            await store_parts(bodies, attempt.parts, frees=edit.frees)
            target = Target(self.chain.key(number), number, self.dead)
            settled, rival = await create(target, value, attempt, frees=edit.frees)
            # SUBTLE! What we learned about `number` counts only if the number is not dead. A stalled writer can create
            # a collected number anew, and a body of ours may have lived and been collected before we looked. Test:
            # tests/protocol/test_p04_boundary.py
            dead = await self.dead()
            if number > dead and settled is Settled.OURS:
                await self._saw(Version(number, value))
                if self._committed is not None:
                    self._committed(head.value, value)
                token = f"{before[0]}:{before[1]}" if before[0] else ""
                return Committed(Version(number, value), result, repeated=False, open=token)
            if number > dead and rival is not None:
                # Only now: at a dead number a rival's file may have come after ours. Test: test_p01_sent_twice.py
                taken = self._rivals(number, rival, value.nonce)
                if taken is not None:
                    attempt.open_number, attempt.nonce = before
                    await Pause(min(5 * (losses + 1), 100), gives_way=True)
                    head, verified = await self._beyond(taken, rival.body), False
                    continue
            if not edit.repeatable:
                raise Unavailable("its file was collected, or is damaged")
            head, verified = await self.refresh(), True
        raise Unavailable(f"{self.chain.prefix}: lost {COMMIT_ATTEMPTS_MAX} races against other writers; retry")

    def _rivals(self, number: int, found: Object, nonce: str) -> Version[S] | None:
        """What was found at `number` instead of our body, without its content if a later release wrote it; None if it
        may be ours, and damaged.

        SUBTLE! A checksum of which a bit has flipped looks like none, and the rest can be read. So what has our nonce
        is ours, even if it is not what we wrote. Test: tests/protocol/test_p01_sent_twice.py
        """
        try:
            taken = self._decoded(number, found)
        except LaterFormat:
            return Version(number, None)
        except Corrupt:
            return None
        return None if taken.value is None or taken.value.nonce == nonce else taken

    async def _beyond(self, taken: Version[S], body: bytes) -> Version[S]:
        """The head to build on after a lost race: `taken`, decoded from `body`, which won it, or what came after it.

        SUBTLE! The boundary was read after `taken`, so that lived. 1. We stand still; the numbers after it are
        collected. 2. A stalled writer creates the next one anew. 3. We read that, find our edit in it, and report that
        it happened. So a boundary is read after what came later, too. Test: tests/protocol/test_p03_head_search.py
        """
        try:
            taken = await self._dead_or_whole(await self._with_parts(taken, body))
        except Corrupt:
            taken = Version(taken.number, None)  # what came after it does not need it
        try:
            found = await self._search(taken) or taken
            found = found if found.whole else await self.read(found.number)
        except (Corrupt, LaterFormat):  # unless it is dead, the search for the head meets it again
            found = None
        if found is None or not found.whole or (found is not taken and found.number <= await self.dead()):
            return await self.refresh()
        await self._saw(found)
        return found

    async def _successor(
        self, head: S | None, made: Next[S, R] | Refused, number: int, now_ms: int, written: Written
    ) -> tuple[S, R, Mapping[str, bytes]] | Refused:
        """What an edit has made of `head`, as file `number`; its result; and what to store before it, by key."""
        if isinstance(made, Refused):
            return made
        value = replace(made.value, id=number, nonce=await NewId(), committed_at_ms=now_ms)
        if self._boundary is not None and isinstance(value, Collected):
            value = replace(value, boundary_seen=max(value.boundary_seen, self._boundary.seen.number))
        if self._parts is None:
            return value, made.result, {}
        divided = self._parts.divided(head, value, written)
        return divided if isinstance(divided, Refused) else (divided[0], made.result, divided[1])

    async def dead(self) -> int:
        """The largest dead number, for one GET of the boundary's next number."""
        found = None if self._boundary is None else (await self._boundary.refresh()).value
        return 0 if found is None else self._dead_in(found)
