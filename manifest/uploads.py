"""Uploads apart from their commit: the edits that begin one, and that append its segments. Pure (P22; docs/rfcs/0019).

Many processes upload the segments of one append, for as long as it takes; one commit appends them all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.appends import appended, full
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import (
    UPLOAD_TTL_MS_MAX,
    UPLOADED_SEGMENTS_MAX,
    UPLOADS_MAX,
    Manifest,
    SegmentRef,
    Transaction,
    Upload,
    UploadAppended,
)
from lithify.manifest.refusals import not_created, refused_for_good
from lithify.manifest.transactions import (
    EXPIRATION_MS,
    Place,
    TransactionStamp,
    dated,
    earlier_version,
    find_transaction,
    remember,
)
from lithify.manifest.words import span_text
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable

__all__ = [
    "AppendUploaded",
    "BeginUpload",
    "UploadGone",
    "find_upload",
    "offsets_of",
    "ran_out",
    "still_stand",
    "upload_of",
]

_ID = re.compile(r"[0-9a-f]{16}")


class UploadGone(Unavailable):
    """The manifest does not have the upload any more. Waiting does not bring it back."""

    retryable = False


def ran_out(upload: Upload, now_ms: int) -> bool:
    """Whether a commit may remove it. Until one does, it protects what is named after it, and can be appended."""
    return upload.expires_at_ms <= now_ms


def still_stand(uploads: tuple[Upload, ...], now_ms: int) -> tuple[Upload, ...]:
    return tuple(upload for upload in uploads if not ran_out(upload, now_ms))


def _without_first_appended(uploads: tuple[Upload, ...]) -> tuple[Upload, ...]:
    """At the bound the upload that was appended first gives way, though it has not expired.

    SUBTLE! Never one that was not appended: 1. U is begun, and its segments are uploaded. 2. Others begin until U gives
    way. 3. A sweep deletes them. 4. The driver of U is refused after hours of work. Whoever repeats the commit of an
    appended one that gave way is refused too, or told by its transaction, and appends nothing. Test:
    tests/protocol/test_p22_uploads.py
    """
    done = [(upload.appended.number, upload.begun_at, upload) for upload in uploads if upload.appended is not None]
    first = min(done, key=lambda each: each[:2], default=(0, 0, None))[2]
    return tuple(upload for upload in uploads if upload is not first)


def find_upload(head: Manifest, name: str) -> Upload | None:
    """SUBTLE! By number and id. 1. Upload U of number 40 expires and is removed, its segments are swept. 2. Whoever
    chooses the id begins it again, at number 90. 3. A driver that was away since commits segments of number 40. By the
    id alone it would be let in. Test: tests/protocol/test_p22_uploads.py
    """
    return next((upload for upload in head.uploads if upload.name == name), None)


def upload_of(segment_id: str, uploads: Sequence[Upload]) -> Upload | None:
    """The upload of `uploads` whose name protects the segment."""
    return next((upload for upload in uploads if SegmentId.of_upload(segment_id, upload.name)), None)


def offsets_of(done: UploadAppended) -> range:
    return range(done.base_offset, done.base_offset + done.rows)


def _noted(head: Manifest, mine: Upload | None, done: UploadAppended) -> tuple[Upload, ...]:
    return tuple(replace(upload, appended=done) if upload is mine else upload for upload in head.uploads)


@dataclass(frozen=True, slots=True)
class BeginUpload:
    """Allow uploads under a new name; answers with the entry. While it stands, the same id is the same upload."""

    id: str
    ttl_ms: int

    repeatable = True  # by the id
    frees = False

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        if type(self.id) is not str or _ID.fullmatch(self.id) is None:
            raise InvalidRequest(
                f"{str(self.id)[:80]!r} is not the id of an upload: give 16 hexadecimal digits (0-9 a-f)"
            )
        if not 0 < self.ttl_ms <= UPLOAD_TTL_MS_MAX:
            raise InvalidRequest(
                f"an upload lasts for at most {span_text(UPLOAD_TTL_MS_MAX)}: give a ttl from 1 to {UPLOAD_TTL_MS_MAX} "
                "milliseconds"
            )

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, Upload] | Already[Upload] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return refused_for_good(head)
        known = next((upload for upload in head.uploads if upload.id == self.id), None)
        if known is not None and (known.appended is not None or not ran_out(known, now_ms)):
            return Already(known)
        # One that ran out and was not appended would be removed while its caller uploads: begin it anew.
        others = tuple(upload for upload in head.uploads if upload is not known)
        if len(others) >= UPLOADS_MAX:
            others = still_stand(others, now_ms)
        if len(others) >= UPLOADS_MAX:
            others = _without_first_appended(others)
        if len(others) >= UPLOADS_MAX:
            first_ms = min(upload.expires_at_ms for upload in others) - now_ms
            return Refused(
                Unavailable(
                    f"{head.topic}/{head.partition} has {UPLOADS_MAX} uploads that were not appended, its limit; the "
                    f"first of them expires in {span_text(first_ms)}. Retry then; give uploads a shorter ttl, or begin "
                    "fewer"
                )
            )
        mine = Upload(id=self.id, begun_at=number, expires_at_ms=now_ms + self.ttl_ms)
        return Next(replace(head, uploads=(*others, mine)), mine)


@dataclass(frozen=True, slots=True)
class AppendUploaded:
    """Append all segments that were uploaded under the upload `name`; answers with their offsets, one after the other
    in the order of `segments`.

    Requires: each segment has rows, and was uploaded whole under its id.
    """

    name: str
    segments: tuple[SegmentRef, ...]
    l0_segments_max: int
    transaction: TransactionStamp | None = None
    expiration_ms: int = EXPIRATION_MS  # of idle applications, as in `Append`

    repeatable = True  # by the upload's `appended`; without its entry it is refused
    frees = False

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        if not 0 < len(self.segments) <= UPLOADED_SEGMENTS_MAX:
            raise InvalidRequest(
                f"one commit appends 1 to {UPLOADED_SEGMENTS_MAX} uploaded segments, and {len(self.segments)} were "
                "given: write fewer, larger ones"
            )
        ids = [ref.id for ref in self.segments]
        strange = [each for each in ids if not SegmentId.of_upload(each, self.name) or not SegmentId.is_one(each)]
        if strange:
            raise InvalidRequest(
                f"segment {strange[0][:120]!r} was not uploaded under upload {self.name}: give its own"
            )
        if len(set(ids)) < len(ids):
            raise InvalidRequest(f"upload {self.name}: a segment was given twice; give each once")

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, range] | Already[range] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return refused_for_good(head)
        mine = find_upload(head, self.name)
        if mine is not None and mine.appended is not None:
            return Already(offsets_of(mine.appended))
        earlier = None if self.transaction is None else earlier_version(head, self.transaction)
        if isinstance(earlier, Already) and mine is not None:
            return self._told(head, mine, earlier.result)
        if earlier is not None:
            return earlier
        error = self._gone(head) if mine is None else full(head, self.l0_segments_max)
        if error is not None:
            return Refused(error)
        done = UploadAppended(number, head.next_offset, sum(ref.rows for ref in self.segments))
        transactions = self._transactions(head, number, now_ms, offsets_of(done))
        if isinstance(transactions, LithifyError):
            return Refused(transactions)
        uploads = _noted(head, mine, done)
        value = replace(appended(head, self.segments, number, now_ms), transactions=transactions, uploads=uploads)
        return Next(value, offsets_of(done))

    def _told(self, head: Manifest, mine: Upload, offsets: range) -> Next[Manifest, range]:
        """SUBTLE! Another upload has appended this version. 1. We answer with its offsets, and the answer is lost. 2.
        The application is forgotten. 3. The commit is repeated: without this note its segments would be appended.
        Test: tests/protocol/test_p22_uploads.py"""
        assert self.transaction is not None
        known = find_transaction(head, self.transaction.application)
        done = UploadAppended(0 if known is None else known.touched_at, offsets.start, len(offsets))
        return Next(replace(head, uploads=_noted(head, mine, done)), offsets)

    def _gone(self, head: Manifest) -> Unavailable:
        return UploadGone(
            f"{head.topic}/{head.partition}: upload {self.name} was removed: it had expired, or it was appended and "
            "others needed its place. This call appended nothing; if an earlier one was never answered, look for its "
            "records first. Then begin another upload, and write its segments again"
        )

    def _transactions(
        self, head: Manifest, number: int, now_ms: int, offsets: range
    ) -> tuple[Transaction, ...] | LithifyError:
        transactions = dated(head.transactions, number, now_ms)
        if self.transaction is None:
            return transactions
        place = Place(head, number, now_ms, offsets)
        return remember(transactions, self.transaction, place, self.expiration_ms)
