"""The append protocol (P6, P7), and how to find out whether an unknown append happened. Protocol coroutines.

Upload the segment under an id that begins with the manifest number last read, then commit the edit that names it,
alone or with others (docs/rfcs/0024). A warm client without rivals needs two PUTs and one GET.
"""

import contextlib
import copy
import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from lithify.manifest.appends import Append, AppendMany, BelowOrphanFloor, Full, NoneAppended
from lithify.manifest.commit import WAS_IT_THERE
from lithify.manifest.config import slows_from
from lithify.manifest.edits import Already, Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Touch
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import ProducerStamp
from lithify.manifest.transactions import EXPIRATION_MS, TransactionStamp
from lithify.manifest.uploads import find_upload, offsets_of
from lithify.store.errors import CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import NewId, Now, Pause, Put

__all__ = ["OF_UPLOAD", "Committing", "Full", "append", "commit_many", "delay", "outcome", "partition_of", "unknown_to"]

Committing = Callable[[Append], Awaitable[range]]
"""Commits one append, whose segment is uploaded; answers with its offsets."""

UPLOADS_MAX = 4  # of one append, each under a new id, because the orphan floor passed the previous one
DELAY_MS_MAX = 1_000  # of an append to a partition that has almost too many L0 segments
OF_UPLOAD = "upload "  # in a token, before the name of an upload
_TOKEN = re.compile(
    r"(?:([^/:]+/[^/:]+/[0-9]+):)?([0-9]{1,20}):[^:]+:([^:]+)"
)  # partition, number, nonce, segment or upload


async def append(
    files: PartitionFiles,
    body: bytes,
    ref: SegmentRef,
    *,
    l0_segments_max: int,
    producer: ProducerStamp | None = None,
    transaction: TransactionStamp | None = None,
    expiration_ms: int = EXPIRATION_MS,
    commit: Committing | None = None,
) -> range:
    """Append the encoded segment `body`, whose reference is `ref` except for its id; answers with its offsets.
    `commit`: how to commit it beside others; None: alone.

    Raises the edit's own refusal or Unavailable (nothing was appended), or CommitUnknown with a token for `outcome`.
    """
    for _ in range(UPLOADS_MAX):
        head = await files.manifest.recent()
        segment_id = SegmentId.for_append(head.number, await NewId())
        edit = Append(replace(ref, id=segment_id), l0_segments_max, producer, transaction, expiration_ms)
        try:
            known = await _known_before(files, edit)
            if known is not None:
                return known
            await delay(files, l0_segments_max)
            await Put(files.keys.segment(segment_id), body)
            return await (_alone(files, edit) if commit is None else commit(edit))
        except BelowOrphanFloor:
            await files.head()
    raise Unavailable(
        f"{files.name}: garbage collection overtook {UPLOADS_MAX} uploads of this append; nothing was appended there. "
        "Retry with smaller appends, or give collection a longer grace period"
    )


async def _alone(files: PartitionFiles, edit: Append) -> range:
    (answer,) = await commit_many(files, (edit,))
    if isinstance(answer, LithifyError):
        raise answer
    return answer


async def commit_many(files: PartitionFiles, members: Sequence[Append]) -> tuple[range | LithifyError, ...]:
    """Commit appends, whose segments are uploaded, together; answers for each with what `append` returns or raises."""
    try:
        outcome = await files.manifest.offer(AppendMany(tuple(members)))
    except CommitUnknown as error:
        # If none was appended at last: those found in the head have their offsets; the refused may have been appended
        # by an earlier attempt.
        known = error.__cause__.answers if isinstance(error.__cause__, NoneAppended) else (None,) * len(members)
        return tuple(
            answer if isinstance(answer, range) else unknown_to(files, member, error)
            for member, answer in zip(members, known, strict=True)
        )
    except LithifyError as error:
        return tuple(copy.copy(error) for _ in members) if len(members) > 1 else (error,)
    if isinstance(outcome, Refused):
        assert isinstance(outcome.error, NoneAppended)
        notes: list[str] = getattr(outcome.error, "__notes__", [])
        return tuple(
            answer if isinstance(answer, range) else _noted(answer.error, notes) for answer in outcome.error.answers
        )
    # SUBTLE! 1. Our commit of A, B and C is manifest 8, which has no room for C. Its outcome is unknown. 2. It did
    # happen. A is compacted, collected, and below the orphan floor; 8 is dead. 3. We try again, as manifest 90: C is
    # appended, B is already there, A is refused. A's caller would upload it again. Test:
    # tests/protocol/test_p07_groups.py
    return tuple(
        answer if isinstance(answer, range) else _refused(files, member, answer, outcome.open)
        for member, answer in zip(members, outcome.result, strict=True)
    )


def _refused(files: PartitionFiles, member: Append, refused: Refused, open_token: str) -> range | LithifyError:
    if not open_token or refused.final:
        return _noted(refused.error, [WAS_IT_THERE] if open_token else [])
    why = CommitUnknown(
        f"{files.name}: whether this append happened is not known ({refused.error}); nothing was deleted. Look it up "
        "before retrying",
        open_token,
    )
    return unknown_to(files, member, why)


def _noted(error: LithifyError, notes: Sequence[str]) -> LithifyError:
    for note in notes:
        error.add_note(note)
    return error


def unknown_to(files: PartitionFiles, member: Append, error: CommitUnknown) -> range | CommitUnknown:
    """What a member is told of a commit that ended with `error`: that, with a token for `outcome`; or its offsets.

    SUBTLE! 1. Our commit of A and B is manifest 2: A is appended, B refused (too many L0 segments). The outcome is
    unknown to us; it did happen, and 2 is dead by now. 2. There is room again: manifest 8 appends B, and recognises A
    among the retired. Its outcome is unknown, too. 3. A is collected. A token for 8 would say that A did not happen,
    and its caller would append it again. Test: tests/protocol/test_p07_groups.py
    """
    head = files.manifest.seen.value
    known = None if head is None else member.known(head)
    if known is not None:
        return known.result
    told = CommitUnknown(str(error), f"{partition_of(files)}:{error.token}:{member.segment.id}")
    told.__cause__ = error
    return told


async def _known_before(files: PartitionFiles, edit: Append) -> range | None:
    """The offsets, if the head shows that a transaction or producer repeats an append, so that nothing need be
    uploaded.

    A refusal is raised here too, before the upload, so that it leaves no orphan behind.
    """
    for fresh in (False, True):
        if fresh:
            await files.head()
        head = files.manifest.seen
        if head.value is None:
            return None
        verdict = edit.placed(head.value, head.number + 1, await Now())
        if isinstance(verdict, Already):
            return verdict.result
        if not isinstance(verdict, Refused):
            return None
        if fresh:
            raise verdict.error
    return None


async def delay(files: PartitionFiles, l0_segments_max: int) -> None:
    """Give compaction time: from three quarters of the limit the wait grows to its maximum; at the limit the edit
    refuses appends."""
    slow_from = slows_from(l0_segments_max)
    if len(_l0(files)) < slow_from:
        return
    await files.head()  # the cached head may be long out of date
    over = len(_l0(files)) - slow_from
    if over >= 0:
        await Pause(DELAY_MS_MAX * (over + 1) // (l0_segments_max - slow_from + 1), gives_way=True)


def _l0(files: PartitionFiles) -> tuple[SegmentRef, ...]:
    head = files.manifest.seen.value
    return () if head is None else head.l0


async def outcome(files: PartitionFiles, token: str, *, settle: bool = False) -> range | None:
    """Whether an append happened that ended in CommitUnknown with `token`: its offsets, or None: it certainly did not
    and will not happen. Raises CommitUnknown if that is unknown (yet), InvalidRequest for another partition's token.

    `settle`: if its manifest number does not exist yet, so that a delayed request could still create it, take that
    number with a commit that changes nothing. Then the answer is certain.
    """
    owner, number, name = _parse(token)
    upload = name.removeprefix(OF_UPLOAD) if name.startswith(OF_UPLOAD) else None
    _check_partition(files, owner)
    head = await files.head()
    if head.id < number and settle:
        # Whoever creates `number` first decides: after this commit the late body gets EXISTS.
        head = await _take_number(files)
    if upload is not None and (entry := find_upload(head, upload)) is not None:
        if entry.appended is not None:
            return offsets_of(entry.appended)
        if head.id >= number:
            return None
    for known in (*head.l0, *head.retired):
        if known.id == name and known.base_offset is not None:
            return range(known.base_offset, known.base_offset + known.rows)
    if head.id < number:
        raise CommitUnknown(
            f"{files.name}: manifest {number} does not exist yet, and the append's commit may still arrive. Any other "
            "commit of this partition settles it: append what comes next, or ask with settle=True",
            token,
        )
    # An entry is forgotten only if it was retired at or below the orphan floor (P16). So a commit at `number` that is
    # neither live nor retired either never happened or is below the floor. It cannot happen later: `number` is taken or
    # dead, and so is every number tried before it (the commit moved on only from numbers it saw lost or dead).
    if number >= head.orphan_floor and owner is not None and upload is None:
        return None
    if owner is None:
        raise CommitUnknown(
            f"{files.name}: the token is from an earlier version of lithify, and does not name its partition. If it is "
            "this one, the append did not happen; ask the other partitions too",
            token,
        )
    why = f"the manifests of that time (number {number}) were collected"
    if upload is not None:
        why = f"upload {upload} was removed: it had expired, or others needed its place after it was appended"
    raise CommitUnknown(
        f"{files.name}: whether the append happened can no longer be determined: {why}. Look for the records in the "
        "log",
        token,
    )


async def _take_number(files: PartitionFiles) -> Manifest:
    with contextlib.suppress(CommitUnknown):  # the head shows whether this settled anything
        await files.manifest.commit(Touch())
    return await files.head()


def partition_of(files: PartitionFiles) -> str:
    return f"{files.keys.topic}/{files.keys.topic_id}/{files.keys.partition}"


def _check_partition(files: PartitionFiles, owner: str | None) -> None:
    """SUBTLE! 1. An append to partition 0 ends as unknown. 2. Its token is given to partition 1, or to a topic that was
    created again under this name. 3. That one would answer "certainly not", and the caller would append again. Test:
    tests/log/test_outcome.py"""
    if owner is None or owner == partition_of(files):
        return
    topic, topic_id, partition = owner.split("/")
    recreated = topic == files.keys.topic and topic_id != files.keys.topic_id
    anew = ", in a topic that was deleted and created again since" if recreated else ""
    raise InvalidRequest(f"{files.name}: the token is from an append to {topic}/{partition}{anew}; ask that partition")


def _parse(token: str) -> tuple[str | None, int, str]:
    """The partition (None: the token is from an earlier lithify), the manifest number, the segment's id; or after
    OF_UPLOAD the upload's name, which has the same form."""
    found = _TOKEN.fullmatch(token)
    if found is None or not SegmentId.is_one(found.group(3).removeprefix(OF_UPLOAD)):
        raise InvalidRequest(f"{token[:120]!r} is not the token of an append; give the token of its CommitUnknown")
    return found.group(1), int(found.group(2)), found.group(3)
