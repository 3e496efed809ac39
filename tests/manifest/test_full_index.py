"""R3 where the time index is full: joining buckets never takes back what retention has hidden."""

from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.edits import Next
from lithify.manifest.model import FORMAT, TIME_INDEX_MAX, Manifest
from lithify.manifest.retention import Retention, floor_at
from tests.refs import segment_ref

DAY = Retention(ms=86_400_000)


def appended(head: Manifest, timestamp_ms: int, now_ms: int) -> Manifest:
    segment = segment_ref(f"{head.id:012d}-{head.id:016x}", bytes=10, timestamp_ms=timestamp_ms)
    verdict = Append(segment, 100_000).apply(head, head.id + 1, now_ms)
    assert isinstance(verdict, Next)
    return replace(verdict.value, id=head.id + 1)


def test_the_floor_that_readers_saw_stays_when_its_bucket_would_be_joined() -> None:
    head = Manifest(format=FORMAT, id=1, nonce="n", topic="t", topic_id="i", partition=0, retention=DAY)
    for number in range(TIME_INDEX_MAX):
        head = appended(head, timestamp_ms=number, now_ms=number)
    now_ms = DAY.ms + 1
    assert floor_at(head, now_ms) == 1, "the first record is a millisecond too old"
    head = appended(head, timestamp_ms=now_ms, now_ms=now_ms)
    assert floor_at(head, now_ms) == 1
    assert len(head.time_index) == TIME_INDEX_MAX
