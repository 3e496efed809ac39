"""What the golden files of the first format hold; `python -m tests.golden.make_files` writes them, once.

Every field of every struct has a value that is not its default, and every variant of a choice occurs. A new format gets
its own folder and its own values; once a format is released its files are never written again, or they would prove
nothing. A file is written as `encode` does it today, with its checksum; those from before there were any have none.
"""

from pathlib import Path

import msgspec

from lithify.manifest.jobs import (
    Attempt,
    CompactorState,
    Estimate,
    FailureCount,
    Job,
    JobError,
    KeyRange,
    MergeCounts,
    MergeRules,
    Plan,
    RangeDone,
    summed_up,
)
from lithify.manifest.model import (
    FORMAT,
    Boundary,
    Bucket,
    Checkpoint,
    CompletedJob,
    ConsumerPosition,
    Growth,
    Manifest,
    Numbered,
    ProducerBatch,
    ProducerEntry,
    Quarantine,
    Retention,
    Retired,
    SegmentRef,
    SortedRun,
    Stretch,
    TopicFile,
    Transaction,
    Upload,
    UploadAppended,
    WarehouseFile,
)

FOLDER = Path(__file__).parent
TOPIC_ID = "00112233445566ff"
JOB = "000000000007-0a1b2c3d"
HEAD = {"format": FORMAT, "nonce": "fedcba9876543210", "committed_at_ms": 1_760_000_000_000}
PARTITION = {"topic": "users", "topic_id": TOPIC_ID, "partition": 3}

L0 = SegmentRef(
    id="000000000008-0123456789abcdef",
    home="cold",
    bytes=1_234,
    raw_bytes=5_678,
    rows=3,
    min_key=b"\x00\xffkey",
    max_key="schlüssel".encode(),
    base_offset=100,
    min_offset=100,
    max_offset=102,
    min_timestamp_ms=-1,
    max_timestamp_ms=1_760_000_000_001,
    tombstones=1,
    min_horizon_ms=1_760_086_400_000,
    max_horizon_ms=1_760_086_400_001,
    order="offset",
    added_at=9,
    checksum="0011223344556677",
)
OUTPUT = SegmentRef(
    id=f"{JOB}-2-0-89abcdef",
    bytes=900,
    raw_bytes=4_000,
    rows=80,
    min_offset=0,
    max_offset=99,
    min_timestamp_ms=5,
    max_timestamp_ms=6,
    added_at=10,
    checksum="8899aabbccddeeff",
)
MANIFEST = Manifest(
    **HEAD,
    **PARTITION,
    id=12,
    compactor_epoch=4,
    next_offset=103,
    log_start_offset=2,
    deleted_to=1,
    cleaned_to=100,
    orphan_floor=6,
    last_cleaned_at_ms=1_760_000_000_002,
    last_compacted_at_ms=1_760_000_000_002,
    sealed=True,
    quarantine=Quarantine("segment x is damaged", "x", 1_760_000_000_003),
    l0=(L0,),
    runs=(SortedRun(id=JOB, segments=(OUTPUT,)),),
    retired=(
        Retired(
            id="000000000005-00000000000000aa", home="cold", bytes=7, rows=2, base_offset=98, added_at=6, retired_at=10
        ),
    ),
    time_index=(Bucket(0, 1_760_000_000_000, 80, 900), Bucket(100, 1_760_000_000_001, 3, 1_234)),
    completed_jobs=(CompletedJob(JOB, 10),),
    producers=(ProducerEntry(id="p", epoch=2, next_sequence=3, batches=(ProducerBatch(0, 3, 100),), touched_at=9),),
    transactions=(Transaction(application="app", version=41, base_offset=100, rows=3),),
    checkpoints=(
        Checkpoint(
            id="c1", name="daily", manifest=11, created_at_ms=1_760_000_000_004, expires_at_ms=1_760_000_600_000
        ),
    ),
    consumers=(
        ConsumerPosition(
            name="search",
            offset=42,
            committed_at=11,
            committed_at_ms=1_760_000_000_008,
            instance="00000000000000aa",
            missed_to=50,
        ),
    ),
)
# Applications as they are remembered since their entries say when they were here last.
MANIFEST_TRANSACTIONS = Manifest(
    **HEAD,
    **PARTITION,
    id=15,
    next_offset=103,
    transactions=(
        Transaction(application="app", version=41, base_offset=97, rows=3),
        Transaction(
            application="import changes.jsonl-0011223344556677 over 4",
            version=12,
            base_offset=100,
            rows=3,
            touched_at=14,
            touched_at_ms=1_760_000_000_009,
            ended=True,
        ),
    ),
)
# What an import passed over, since its entry says so.
MANIFEST_PASSED_OVER = Manifest(
    **HEAD,
    **PARTITION,
    id=18,
    next_offset=103,
    transactions=(
        Transaction(
            application="import changes.jsonl-0011223344556677 over 4",
            version=20,
            base_offset=100,
            rows=3,
            touched_at=17,
            touched_at_ms=1_760_000_000_009,
            passed_over=(Stretch(1, 4), Stretch(11, 19)),
        ),
    ),
)
# What checkpoints let go of, since a manifest notes it.
MANIFEST_UNPINNED = Manifest(**HEAD, **PARTITION, id=19, next_offset=103, orphan_floor=12, unpinned=(4, 11))
_SCAN = Checkpoint(id="c2", owner="scan", name="00aa", manifest=14, created_at_ms=1_000, expires_at_ms=3_601_000)
_RUN = SortedRun(id=JOB, reaches_to=2, segments=(msgspec.structs.replace(OUTPUT, min_offset=5),))
OWNERS = Manifest(**HEAD, **PARTITION, id=20, next_offset=103, log_start_offset=2, checkpoints=(_SCAN,), runs=(_RUN,))
_UPLOAD = Upload(id="00112233445566aa", begun_at=14, expires_at_ms=86_401_000, appended=UploadAppended(20, 100, 3))
UPLOADS = Manifest(**HEAD, **PARTITION, id=21, next_offset=103, uploads=(_UPLOAD,))
# The bounds of retention, since a manifest says which hold in it.
MANIFEST_BOUNDS = Manifest(
    **HEAD, **PARTITION, id=16, next_offset=103, retention=Retention(ms=604_800_000, bytes=5, records=7), config_at=3
)
MANIFEST_ROWS = Manifest(
    **HEAD,
    **PARTITION,
    id=19,
    next_offset=103,
    l0=(msgspec.structs.replace(L0, max_row_bytes=60_000_000, tombstones=0, min_horizon_ms=None, max_horizon_ms=None),),
    time_index=(Bucket(100, 1_760_000_000_001, 3, 1_234, 5_678),),
)
# The time index as it is kept since its buckets know how large their records are.
MANIFEST_SIZES = Manifest(
    **HEAD,
    **PARTITION,
    id=17,
    next_offset=103,
    l0=(msgspec.structs.replace(L0, tombstones=0, min_horizon_ms=None, max_horizon_ms=None),),
    runs=(SortedRun(id=JOB, segments=(OUTPUT,)),),
    time_index=(Bucket(0, 1_760_000_000_000, 80, 870, 4_000), Bucket(100, 1_760_000_000_001, 3, 1_234, 5_678)),
)
COUNTS = MergeCounts(
    rows_in=100,
    rows_out=80,
    superseded=10,
    expired_tombstones=4,
    below_floor=5,
    keyless=1,
    bytes_read=2_000,
    bytes_written=900,
    cpu_ms=12,
    gets=7,
    puts=3,
)
ERROR = JobError("memory", "a worker ran out of memory")
RUNNING = Job(
    id=JOB,
    kind="clean",
    status="in_progress",
    origin="manual",
    requested=("run-1", "000000000008-0123456789abcdef"),
    sources=("run-1", "000000000008-0123456789abcdef"),
    segments=("s1", "s2", "000000000008-0123456789abcdef"),
    destination=JOB,
    plan=Plan(
        ranges=(KeyRange(None, b"m\x00"), KeyRange(b"m\x00", None), KeyRange(low_offset=3, high_offset=100)),
        rules=MergeRules(
            order="offset",
            drop_superseded=True,
            drop_keyless=True,
            floor=2,
            clock_ms=1_760_000_000_005,
            coverage_offset=100,
            stamp_horizon_ms=1_760_086_400_005,
            buckets=(0, 100),
        ),
        output_bytes=268_435_456,
        input_bytes=2_000,
        input_rows=100,
        input_segments=3,
    ),
    attempts=(
        Attempt(number=1, epoch=3, worker="host:1", started_at_ms=10, ended_at_ms=20, ranges_done=0, error=ERROR),
        Attempt(number=2, epoch=4, worker="host:2", started_at_ms=30, ranges_done=1),
    ),
    done=(
        RangeDone(
            index=0, attempt=2, outputs=(OUTPUT,), counts=COUNTS, lost=(15, 5), dropped_to=97, peak_memory_bytes=123
        ),
    ),
    cancel_requested=True,
    reason="asked for: by sources",
    error=ERROR,
    created_at_ms=5,
    started_at_ms=9,
    completed_at_ms=40,
    counts=COUNTS,
    estimate=Estimate(
        input_segments=3,
        input_rows=100,
        input_bytes=2_000,
        output_rows=80,
        output_bytes=900,
        ranges=3,
        peak_memory_bytes=456,
        gets=9,
        puts=5,
        own_gets=9,
        own_puts=7,
        basis="its inputs: nothing finished yet",
    ),
    peak_memory_bytes=123,
    output_segments=1,
    output_bytes=900,
)


def finished(number: int, status: str, origin: str, kind: str | None) -> Job:
    fields = {"id": f"000000000001-{number:08x}", "status": status, "origin": origin, "kind": kind}
    return Job(**fields, created_at_ms=number, completed_at_ms=number + 1)


COMPACTOR = CompactorState(
    **HEAD,
    **PARTITION,
    id=13,
    epoch=4,
    owner="00000000000000ab",
    owner_name="host:2",
    planning=True,
    heartbeat_at_ms=1_760_000_000_006,
    jobs=(RUNNING, Job(id="000000000012-00000001", status="submitted", origin="manual", created_at_ms=7)),
    history=(
        finished(1, "completed", "scheduler", "tier"),
        finished(2, "failed", "manual", "clean"),
        finished(3, "cancelled", "manual", None),
    ),
    failures=(FailureCount(sources="0123456789abcdef", count=2, error=ERROR, retry_at_ms=1_760_000_002_000),),
)
# Jobs as the history keeps them: counts in place of plan and outputs.
COMPACTOR_ENDED = CompactorState(
    **HEAD,
    **PARTITION,
    id=14,
    epoch=4,
    history=tuple(
        summed_up(msgspec.structs.replace(RUNNING, status=status)) for status in ("completed", "failed", "cancelled")
    ),
    failures=(FailureCount(sources="0123456789abcdef", count=0, lost=1, error=ERROR, retry_at_ms=1_760_000_002_000),),
)
# A job whose one range was counted by size.
SIZES = {"lost": (15, 5), "kept_bytes": (3_900, 100), "lost_bytes": (700, 300)}
SIZED = RangeDone(index=0, attempt=2, outputs=(OUTPUT,), counts=COUNTS, **SIZES)
COMPACTOR_SIZES = CompactorState(
    **HEAD, **PARTITION, id=15, epoch=4, jobs=(msgspec.structs.replace(RUNNING, done=(SIZED,)),)
)
# A job that ended under a throttle.
COMPACTOR_PACED = CompactorState(
    **HEAD,
    **PARTITION,
    id=16,
    epoch=4,
    history=(summed_up(msgspec.structs.replace(RUNNING, status="completed", paced_to_ms=1_760_000_010_000)),),
)
# A job that the deletion of its topic ended.
DELETED = {"status": "cancelled", "reason": "the topic was deleted", "chosen": "asked for", "ended_by": "deletion"}
COMPACTOR_CHOSEN = CompactorState(
    **HEAD, **PARTITION, id=18, epoch=4, history=(summed_up(msgspec.structs.replace(RUNNING, **DELETED)),)
)
# A job with attempts that failed, and a range that is to be done again.
FAILED = msgspec.structs.replace(RUNNING, failed_attempts=3, counted=(1,))
COMPACTOR_FAILED = CompactorState(**HEAD, **PARTITION, id=17, epoch=4, jobs=(FAILED,))
COMPACTOR_BOUNDARY = CompactorState(**HEAD, **PARTITION, id=21, epoch=4, boundary_seen=6)
MANIFEST_BOUNDARY = Manifest(**HEAD, **PARTITION, id=25, next_offset=103, log_start_offset=103, boundary_seen=7)
BOUNDARY = Boundary(**HEAD, **PARTITION, id=2, manifest=10, compactor=11, manifest_head=12, compactor_head=13)
TOPIC = TopicFile(
    **HEAD,
    id=3,
    topic="users",
    topic_id=TOPIC_ID,
    partitions=4,
    config={"cleanup.policy": "compact", "delete.retention.ms": "86400000"},
    created_at_ms=1_760_000_000_007,
    deleted=True,
)
TOPIC_BOUNDS = TopicFile(
    **HEAD,
    id=5,
    topic="users",
    topic_id=TOPIC_ID,
    partitions=4,
    config={"cleanup.policy": "delete", "retention.ms": "604800000"},
    created_at_ms=1_760_000_000_007,
    former_bounds=Retention(ms=86_400_000),
)
TOPIC_GROWTHS = TopicFile(
    **HEAD,
    id=6,
    topic="users",
    topic_id=TOPIC_ID,
    partitions=4,
    config={"cleanup.policy": "compact"},
    created_at_ms=1_760_000_000_007,
    growths=(Growth(1, (1_500,)), Growth(2, (2_000, None))),
)
WAREHOUSE = WarehouseFile(
    **HEAD, id=4, config={"auto.create.topics.enable": "true", "default.cleanup.policy": "compact"}
)
FILES: dict[str, Numbered] = {
    "manifest": MANIFEST,
    "manifest-sizes": MANIFEST_SIZES,
    "manifest-transactions": MANIFEST_TRANSACTIONS,
    "manifest-passed-over": MANIFEST_PASSED_OVER,
    "manifest-unpinned": MANIFEST_UNPINNED,
    "manifest-owners": OWNERS,
    "manifest-uploads": UPLOADS,
    "manifest-bounds": MANIFEST_BOUNDS,
    "manifest-rows": MANIFEST_ROWS,
    "manifest-boundary": MANIFEST_BOUNDARY,
    "compactor-boundary": COMPACTOR_BOUNDARY,
    "compactor": COMPACTOR,
    "compactor-ended": COMPACTOR_ENDED,
    "compactor-sizes": COMPACTOR_SIZES,
    "compactor-paced": COMPACTOR_PACED,
    "compactor-failed": COMPACTOR_FAILED,
    "compactor-chosen": COMPACTOR_CHOSEN,
    "boundary": BOUNDARY,
    "topic": TOPIC,
    "topic-bounds": TOPIC_BOUNDS,
    "topic-growths": TOPIC_GROWTHS,
    "warehouse": WAREHOUSE,
}
