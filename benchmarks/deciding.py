"""What it costs to decide, and to append, in a partition with many L0 segments and runs: processor time of one call."""

import statistics
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from benchmarks.wide import SEGMENTS, wide
from lithify.compactor.policy import decide, decision
from lithify.manifest.appends import Append
from lithify.manifest.codec import encode
from lithify.manifest.config import parse
from lithify.manifest.edits import Next
from lithify.manifest.invariants import check_manifest
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at, retention_of
from lithify.manifest.run_lists import RunLists
from lithify.manifest.runs import Runs

__all__ = ["Deciding", "deciding"]

_SIZES = ((1_000, 200), (4_096, 200))  # L0 segments, runs
_SEGMENTS_OF_A_RUN = 8
_ROWS = 100
_ROW_BYTES = 100
_APPEND_MS = 1_000
_CALLS = 51
_POLICIES = {
    "compact": {"cleanup.policy": "compact"},
    "compact,delete": {"cleanup.policy": "compact,delete", "retention.bytes": "10000000"},
}
_OF_WIDE = {"delete": {"cleanup.policy": "delete"}}  # whose runs are not merged once they are large


class Deciding(msgspec.Struct, frozen=True):
    """Medians, in milliseconds."""

    policy: str
    l0: int
    runs: int
    decide_ms: float
    survey_ms: float
    log_start_ms: float
    append_ms: float  # the edit: the next manifest from this one
    encode_ms: float  # that manifest as JSON
    manifest_bytes: int
    check_ms: float  # what a commit does between the two: which run lists it has, and whether it breaks no invariant
    segments: int  # in runs


def deciding() -> list[Deciding]:
    found = [_one(policy, *_manifest(l0, runs)) for l0, runs in _SIZES for policy in _POLICIES]
    return [*found, _one("compact", *_wide(SEGMENTS)), _one("delete", *_wide(1))]


def _one(policy: str, manifest: Manifest, now_ms: int) -> Deciding:
    config = parse((_POLICIES | _OF_WIDE)[policy])
    manifest = replace(manifest, retention=retention_of(config))
    append = Append(_segment(10**9), l0_segments_max=10**9)
    return Deciding(
        policy=policy,
        l0=len(manifest.l0),
        runs=len(manifest.runs),
        decide_ms=_median_ms(lambda: decide(Reading.of(manifest, None, config, now_ms))),
        survey_ms=_median_ms(lambda: decision(Reading.of(manifest, None, config, now_ms))),
        log_start_ms=_median_ms(lambda: floor_at(manifest, now_ms)),
        append_ms=_median_ms(lambda: append.apply(manifest, manifest.id + 1, now_ms)),
        encode_ms=_median_ms(lambda: encode(manifest)),
        manifest_bytes=len(encode(manifest)),
        check_ms=_median_ms(lambda: _checked(manifest, append, now_ms)),
        segments=len(Runs.of(manifest.runs).segments),
    )


def _checked(manifest: Manifest, append: Append, now_ms: int) -> None:
    verdict = append.apply(manifest, manifest.id + 1, now_ms)
    assert isinstance(verdict, Next)
    following = replace(verdict.value, id=manifest.id + 1, nonce="n")
    keys = PartitionKeys(manifest.topic, manifest.topic_id, manifest.partition)
    made = RunLists(keys).divided(manifest, following, {})
    assert isinstance(made, tuple)
    check_manifest(manifest, made[0])


def _wide(segments_of_a_run: int) -> tuple[Manifest, int]:
    first = Manifest(format=FORMAT, topic="many", topic_id="one", partition=0, id=1, nonce="n")
    manifest, _ = wide(first, segments_of_a_run)
    return manifest, manifest.time_index[-1].max_timestamp_ms


def _median_ms(call: Callable[[], object]) -> float:
    taken: list[float] = []
    for _ in range(_CALLS):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return 1_000 * statistics.median(taken)


def _manifest(l0: int, runs: int) -> tuple[Manifest, int]:
    """Appended one by one, so that the time index is full and as it would be; the oldest then stand as runs."""
    manifest = Manifest(format=FORMAT, topic="many", topic_id="one", partition=0, id=1, nonce="n")
    now_ms = 0
    for number in range(l0 + runs * _SEGMENTS_OF_A_RUN):
        now_ms += _APPEND_MS
        verdict = Append(_segment(number, now_ms), l0_segments_max=10**9).apply(manifest, manifest.id + 1, now_ms)
        assert isinstance(verdict, Next)
        manifest = replace(verdict.value, id=manifest.id + 1)
    tiered, rest = manifest.l0[: runs * _SEGMENTS_OF_A_RUN], manifest.l0[runs * _SEGMENTS_OF_A_RUN :]
    parts = [tiered[at : at + _SEGMENTS_OF_A_RUN] for at in range(0, len(tiered), _SEGMENTS_OF_A_RUN)]
    made = tuple(
        SortedRun(id=part[0].id, segments=tuple(replace(ref, base_offset=None) for ref in part)) for part in parts
    )
    return replace(manifest, l0=rest, runs=made), now_ms


def _segment(number: int, now_ms: int = 0) -> SegmentRef:
    return SegmentRef(
        id=SegmentId.for_append(number, f"{number:032x}"),
        bytes=_ROWS * _ROW_BYTES,
        raw_bytes=2 * _ROWS * _ROW_BYTES,
        rows=_ROWS,
        min_key=b"account-00000000",
        max_key=b"account-99999999",
        min_offset=0,
        max_offset=_ROWS - 1,
        min_timestamp_ms=now_ms - _APPEND_MS,
        max_timestamp_ms=now_ms,
        checksum="0" * 16,
    )
