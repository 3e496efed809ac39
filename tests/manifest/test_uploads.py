"""Uploads apart from their commit: what is begun, what is appended, and what is refused (P22). Pure edits; with stores
and collectors: tests/protocol/test_p22_uploads.py."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import (
    TIME_INDEX_MAX,
    TRANSACTIONS_MAX,
    UPLOAD_TTL_MS_MAX,
    UPLOADED_SEGMENTS_MAX,
    UPLOADS_MAX,
    Retention,
    SegmentRef,
    Transaction,
    Upload,
    UploadAppended,
)
from lithify.manifest.retention import floor_at
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.store.errors import InvalidRequest, NotFound, Unavailable
from tests.protocol.scene import FIRST, L0_MAX, after, at, segment

DAY_MS = 86_400_000
ID = "00112233445566aa"


def edit(upload: Upload, *refs: SegmentRef, **fields: Any) -> AppendUploaded:
    return AppendUploaded(upload.name, refs, L0_MAX, **fields)


def test_one_that_expired_is_begun_anew_unless_it_was_appended() -> None:
    """It would be removed while its segments are uploaded; but whoever repeats a write must learn that it was done."""
    head = after(at(FIRST, 1), BeginUpload(ID, 10), now_ms=0)
    (first,) = head.uploads
    (anew,) = after(head, BeginUpload(ID, 10), now_ms=10).uploads
    assert (anew.begun_at, anew.expires_at_ms) == (head.id + 1, 20)
    done = after(head, edit(first, segment(SegmentId.for_upload(first.name, "0" * 16))))
    assert BeginUpload(ID, 10).apply(done, done.id + 1, 10) == Already(done.uploads[0])


def test_at_the_limit_expired_uploads_give_way_and_others_do_not() -> None:
    uploads = tuple(Upload(id=f"{n:016x}", begun_at=1, expires_at_ms=100 + n) for n in range(UPLOADS_MAX))
    full = replace(at(FIRST, 9), uploads=uploads)
    verdict = BeginUpload(ID, 10).apply(full, 10, 99)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, Unavailable)
    assert "256 uploads that were not appended" in str(verdict.error)
    assert [each.id for each in after(full, BeginUpload(ID, 10), now_ms=101).uploads] == [
        *(each.id for each in uploads[2:]),
        ID,
    ]


def test_at_the_limit_the_one_that_was_appended_first_gives_way() -> None:
    """Not the one that was begun first: its driver may have needed hours, and may still repeat its commit."""
    uploads = tuple(Upload(id=f"{n:016x}", begun_at=1 + n, expires_at_ms=100) for n in range(UPLOADS_MAX))
    done = {3: 2_000, 7: 300, 9: 1_000}
    uploads = tuple(
        replace(each, appended=UploadAppended(done[n], 0, 1)) if n in done else each for n, each in enumerate(uploads)
    )
    full = replace(at(FIRST, 5_000), uploads=uploads, next_offset=1, log_start_offset=1)
    assert [each.id for each in after(full, BeginUpload(ID, 10), now_ms=0).uploads] == [
        *(each.id for n, each in enumerate(uploads) if n != 7),
        ID,
    ]


@given(steps=st.lists(st.tuples(st.sampled_from(["begin", "append", "again"]), st.integers(0, 9)), max_size=60))
def test_a_begin_is_refused_only_where_nothing_can_give_way(steps: list[tuple[str, int]]) -> None:
    """And a commit that is repeated, whatever became of its entry, appends nothing."""
    head, begun, done = at(FIRST, 1), list[Upload](), set[str]()
    with patch("lithify.manifest.uploads.UPLOADS_MAX", 3):
        for number, (what, which) in enumerate(steps):
            if what == "begin":
                verdict = BeginUpload(f"{number:016x}", DAY_MS).apply(head, head.id + 1, number)
                assert isinstance(verdict, Refused) == (sum(u.appended is None for u in head.uploads) >= 3)
            else:
                of = [upload for upload in begun if (upload.name in done) == (what == "again")]
                if not of:
                    continue
                upload = of[which % len(of)]
                ref = segment(SegmentId.for_upload(upload.name, "0" * 16))
                verdict = edit(upload, ref).apply(head, head.id + 1, number)
                assert isinstance(verdict, Next) == (what == "append"), "what was not appended can be"
                done.add(upload.name)
            if isinstance(verdict, Next):
                head = replace(verdict.value, id=head.id + 1)
                begun += [upload for upload in head.uploads if upload.begun_at == head.id]


@pytest.mark.parametrize("upload_id", ["", "0", "0" * 15, "0" * 17, "0" * 15 + "g", "A" * 16, "0" * 15 + "/"])
def test_an_id_that_is_no_part_of_a_name_is_refused(upload_id: str) -> None:
    with pytest.raises(InvalidRequest, match="16 hexadecimal digits"):
        BeginUpload(upload_id, 10)


@pytest.mark.parametrize("ttl_ms", [-1, 0, UPLOAD_TTL_MS_MAX + 1])
def test_it_lasts_for_a_week_at_most(ttl_ms: int) -> None:
    with pytest.raises(InvalidRequest, match=r"at most 7\.0 d"):
        BeginUpload(ID, ttl_ms)
    assert BeginUpload(ID, UPLOAD_TTL_MS_MAX).ttl_ms == 7 * DAY_MS


def test_segments_of_others_no_segments_too_many_and_one_given_twice_are_refused() -> None:
    upload = Upload(id=ID, begun_at=4, expires_at_ms=9)
    mine = [segment(SegmentId.for_upload(upload.name, f"{n:016x}")) for n in range(UPLOADED_SEGMENTS_MAX + 1)]
    for ids in (
        SegmentId.for_append(4, ID),
        SegmentId.for_upload(f"{5:012d}-{ID}", ID),
        f"{upload.name}-../x",
        f"{upload.name}-{ID}-1",
    ):
        with pytest.raises(InvalidRequest, match="was not uploaded under upload"):
            edit(upload, mine[0], segment(ids))
    with pytest.raises(InvalidRequest, match="given twice"):
        edit(upload, mine[0], mine[1], mine[0])
    for refs in ((), mine):
        with pytest.raises(InvalidRequest, match=f"{len(refs)} were given"):
            edit(upload, *refs)
    assert len(edit(upload, *mine[1:]).segments) == UPLOADED_SEGMENTS_MAX


def test_at_the_limit_of_l0_segments_nothing_is_appended_and_later_it_is() -> None:
    head = after(at(FIRST, 1), *(Append(segment(f"{1:012}-{n:016x}"), L0_MAX) for n in range(3)), BeginUpload(ID, 10))
    (upload,) = head.uploads
    refs = tuple(segment(SegmentId.for_upload(upload.name, f"{n:016x}")) for n in range(2))
    verdict = AppendUploaded(upload.name, refs, 3).apply(head, head.id + 1, 0)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, Unavailable)
    assert len(after(head, AppendUploaded(upload.name, refs, 4)).l0) == 5


def test_before_there_is_a_partition_nothing_is_begun_or_appended() -> None:
    for each in (BeginUpload(ID, 10), edit(Upload(id=ID, begun_at=1, expires_at_ms=9), segment(f"{1:012}-{ID}-{ID}"))):
        verdict = each.apply(None, 1, 0)
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, NotFound)


def test_an_application_is_remembered_while_an_upload_from_before_may_follow() -> None:
    """1. A driver begins an upload for version 5, and is stopped. 2. The same write runs again and appends version 5.
    3. Others need the place of its application. 4. The first driver goes on."""
    names = [f"app{n}" for n in range(TRANSACTIONS_MAX)]
    known = tuple(
        Transaction(application=name, version=5, base_offset=0, rows=1, touched_at=20 + n, touched_at_ms=1)
        for n, name in enumerate(names)
    )
    head = replace(at(FIRST, 5_000), transactions=known, orphan_floor=4_000, next_offset=1, log_start_offset=1)
    newcomer = Append(segment(f"{5_000:012}-{ID}"), L0_MAX, transaction=TransactionStamp("new", 1), expiration_ms=10)
    for uploads, forgotten in (
        ((), "app0"),
        ((Upload(id=ID, begun_at=30, expires_at_ms=10**6),), "app0"),
        ((Upload(id=ID, begun_at=20, expires_at_ms=10**6),), None),
    ):
        verdict = newcomer.apply(replace(head, uploads=uploads), 5_001, 1_000)
        if forgotten is None:
            assert isinstance(verdict, Refused)
            assert isinstance(verdict.error, Unavailable)
        else:
            left = {
                entry.application
                for entry in after(replace(head, uploads=uploads), newcomer, now_ms=1_000).transactions
            }
            assert {*names} - left == {forgotten}


def test_the_floor_that_readers_saw_stays_when_an_upload_joins_buckets() -> None:
    """The index has room for one more segment, and the upload has three."""
    first = Append(segment(f"{1:012}-{ID}", min_timestamp_ms=0, max_timestamp_ms=0), L0_MAX)
    later = (
        Append(segment(f"{1:012}-{n:016x}", min_timestamp_ms=9_000, max_timestamp_ms=9_000), L0_MAX)
        for n in range(TIME_INDEX_MAX - 2)
    )
    head = after(replace(at(FIRST, 1), retention=Retention(ms=1_000)), first, *later, BeginUpload(ID, 10), now_ms=500)
    assert len(head.time_index) == TIME_INDEX_MAX - 1
    (upload,) = head.uploads
    refs = [
        segment(SegmentId.for_upload(upload.name, f"{n:016x}"), min_timestamp_ms=9_000, max_timestamp_ms=9_000)
        for n in range(3)
    ]
    assert (floor_at(head, 2_000), head.log_start_offset) == (1, 0)
    assert floor_at(after(head, edit(upload, *refs), now_ms=2_000), 2_000) == 1
