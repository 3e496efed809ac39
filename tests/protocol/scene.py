"""What the protocol's tests share: one partition in a simulated store, and coroutines advanced request by request."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeGuard

from msgspec.structs import replace

from lithify.compactor.job_edits import ClaimState
from lithify.manifest.appends import Append
from lithify.manifest.claims import Claim
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.config import parse
from lithify.manifest.edits import Next
from lithify.manifest.invariants import check_compactor, check_manifest
from lithify.manifest.jobs import Job, KeyRange, MergeRules, Plan
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.store.port import Create, Delete, Get, Head, NewId, Outcome, Put, Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.compactor.simulated_engine import Row, encode, reference
from tests.interleave import World
from tests.refs import segment_ref

TOPIC_ID = "0123456789abcdef"
KEYS = PartitionKeys("t", TOPIC_ID, 0)
FIRST = Manifest(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0)
# Outputs are cut so early that a job over ROWS has three ranges: k0-k1, k2-k3, k4-k5.
CONFIG = parse({"cleanup.policy": "compact", "l0.segments.tier": "4", "compaction.output.bytes": "1024"})
GRACE_MS = 100_000
L0_MAX = 10_000
ROWS: list[list[Row]] = [[(f"k{n}", 0, "v" * 300, None)] for n in range(6)]


def segment(segment_id: str, rows: int = 1, **fields: Any) -> SegmentRef:
    plain: dict[str, Any] = {"bytes": 100 * rows, "raw_bytes": 200 * rows, "min_key": b"a", "max_key": b"z"}
    return segment_ref(segment_id, rows=rows, **{**plain, **fields})


def new_partition() -> World:
    """A world whose store holds the partition's first manifest, and no faults."""
    world = World(0)
    world.alone(PartitionFiles(KEYS).manifest.commit(CreatePartition(FIRST)))
    return world


async def upload(files: PartitionFiles, rows: int = 1) -> SegmentRef:
    head = files.manifest.seen if files.manifest.seen.number else await files.manifest.refresh()
    ref = segment(SegmentId.for_append(head.number, await NewId()), rows)
    await Put(KEYS.segment(ref.id), b"x" * rows)
    return ref


async def append(files: PartitionFiles, rows: int = 1) -> tuple[SegmentRef, range]:
    ref = await upload(files, rows)
    return ref, (await files.manifest.commit(Append(ref, L0_MAX))).result


async def appends(files: PartitionFiles, count: int) -> None:
    for _ in range(count):
        await append(files)


async def append_rows(files: PartitionFiles, batches: list[list[Row]]) -> None:
    """Appends with contents, for the simulated engine to merge."""
    for rows in batches:
        head = await files.head()
        ref = reference(SegmentId.for_append(head.id, await NewId()), rows)
        await Put(files.keys.segment(ref.id), encode(rows))
        await files.manifest.commit(Append(ref, L0_MAX))


async def claim(files: PartitionFiles, owner: str = "owner") -> int:
    """Both halves of a claim, as a coordinator makes them."""
    epoch = (await files.manifest.commit(Claim(None))).result
    await files.compactor.commit(ClaimState(first_state(await files.head()), epoch, owner, f"{owner}:1"))
    return epoch


def replacing(head: Manifest, sources: tuple[SegmentRef, ...], epoch: int, **fields: Any) -> CommitCompaction:
    """The commit of a job that merges `sources` into one segment of the same offsets."""
    job = fields.pop("job", SegmentId.for_job(head.id, "f" * 16))
    merged = segment(
        SegmentId.for_output(job, 1, 0, "0" * 16),
        rows=sum(s.rows for s in sources),
        min_offset=min(s.min_offset for s in sources),
        max_offset=max(s.max_offset for s in sources),
    )
    plain: dict[str, Any] = {
        "epoch": epoch,
        "job": job,
        "segments": tuple(s.id for s in sources),
        "run": SortedRun(id=job, segments=(merged,)),
        "coverage_offset": 0,
        "clean": False,
        "forget": (),
    }
    if "run" in fields and not fields["run"].segments:
        fields["lost"] = tuple((s.min_offset, s.rows) for s in sources)
    return CommitCompaction(**{**plain, **fields})


async def compact(files: PartitionFiles, epoch: int, **fields: Any) -> CommitCompaction:
    """Merge all L0 segments into a run, its bytes uploaded first."""
    head = await files.head()
    edit = replacing(head, head.l0, epoch, **fields)
    for ref in edit.run.segments:
        await Put(KEYS.segment(ref.id), b"merged")
    await files.manifest.commit(edit)
    return edit


def job(job_id: str = "000000000001-0000abcd", **fields: Any) -> Job:
    """A job ready to be admitted: two sources, three ranges."""
    ranges = (KeyRange(None, b"h"), KeyRange(b"h", b"p"), KeyRange(b"p", None))
    plan = Plan(
        ranges=ranges, rules=MergeRules(), output_bytes=1 << 20, input_bytes=200, input_rows=2, input_segments=2
    )
    plain: dict[str, Any] = {
        "id": job_id,
        "kind": "tier",
        "status": "in_progress",
        "origin": "scheduler",
        "sources": ("s1", "s2"),
        "segments": ("s1", "s2"),
        "destination": job_id,
        "plan": plan,
        "created_at_ms": 0,
    }
    return Job(**{**plain, **fields})


def at(manifest: Manifest, number: int) -> Manifest:
    return replace(manifest, id=number, nonce="n")


def after(head: Any, *edits: Any, now_ms: int = 0) -> Any:
    """The manifest, or compactor state, that `edits` make of `head`, one after the other; none breaks an invariant."""
    check = check_manifest if isinstance(head, Manifest) else check_compactor
    for edit in edits:
        verdict = edit.apply(head, head.id + 1, now_ms)
        assert isinstance(verdict, Next), verdict
        following = replace(verdict.value, id=head.id + 1, nonce="n", committed_at_ms=now_ms)
        check(head, following)
        head = following
    return head


class Held:
    """A coroutine advanced by hand: it waits at `request` until it is told how to go on."""

    def __init__(self, world: World, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._world = world
        self._coroutine = coroutine
        self.result: Any = None
        self.asked: list[Request[Any]] = []
        self.request: Request[Any] | None = None
        self._advance(lambda: coroutine.send(None))

    def _advance(self, go: Callable[[], Request[Any]]) -> None:
        try:
            self.request = go()
            self.asked.append(self.request)
        except StopIteration as stop:
            self.request, self.result = None, stop.value

    def reply(self, answer: Any) -> None:
        """Answer the request it waits at with `answer`, whatever the store holds."""
        self._advance(lambda: self._coroutine.send(answer))

    def fail(self, error: Exception) -> None:
        self._advance(lambda: self._coroutine.throw(error))

    def go(self) -> None:
        """Let the store answer the request it waits at."""
        assert self.request is not None, "it has ended"
        self.reply(self._world._answer(self.request))

    def answers(self, replies: Callable[[Request[Any]], Any]) -> None:
        """Answer the request it waits at, or each of those made together, with what `replies` gives (an exception: it
        fails); None: the store answers."""
        assert self.request is not None, "it has ended"
        requests = self.request.requests if isinstance(self.request, Together) else (self.request,)
        found = one_after_the_other([partial(self._answer, each, replies(each)) for each in requests])
        if isinstance(self.request, Together):
            self.reply(tuple(found))
        else:
            self.fail(found[0]) if isinstance(found[0], Exception) else self.reply(found[0])

    def _answer(self, request: Request[Any], instead: Any) -> Any:
        if isinstance(instead, Exception):
            raise instead
        return self._world._answer(request) if instead is None else instead

    def until(self, wanted: Callable[[Request[Any]], bool]) -> Request[Any]:
        """Go on until it waits at a request that is `wanted`."""
        while self.request is not None and not wanted(self.request):
            self.go()
        assert self.request is not None, "it ended before"
        return self.request

    def end(self) -> Any:
        while self.request is not None:
            self.go()
        return self.result

    def end_in_silence(self) -> Any:
        """Go on while no create is ever answered, nor arrives."""
        while self.request is not None:
            self.reply(Outcome.UNKNOWN) if isinstance(self.request, Create) else self.go()
        return self.result

    def asked_for(self, *kinds: type) -> list[Request[Any]]:
        return [request for request in self.asked if isinstance(request, kinds)]

    @property
    def deleted(self) -> set[str]:
        return {key for request in self.asked if isinstance(request, Delete) for key in request.keys}


def creates_manifest(request: Request[Any] | None) -> TypeGuard[Create]:
    return isinstance(request, Create) and KEYS.manifest.number(request.key) is not None


def keys_of(request: Request[Any] | None) -> list[str]:
    """What it looks at, alone or together with others."""
    requests = request.requests if isinstance(request, Together) else (request,)
    return [each.key for each in requests if isinstance(each, Get | Head)]


def creates_in(request: Request[Any] | None) -> list[Create]:
    """What it creates, alone or together with others."""
    requests = request.requests if isinstance(request, Together) else (request,)
    return [each for each in requests if isinstance(each, Create)]


def rounds_of_creates(held: Held) -> list[list[str]]:
    """The keys, by round of requests."""
    return [[each.key for each in made] for request in held.asked if (made := creates_in(request))]


def looks_at(key: str) -> Callable[[Request[Any]], bool]:
    return lambda request: key in keys_of(request)


def is_get(key: str) -> Callable[[Request[Any]], bool]:
    return lambda request: request == Get(key)
