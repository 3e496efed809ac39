"""Writes the golden files that are not there yet: those of tests/golden/make.py, those that name other homes, and those
that have run lists.

python -m tests.golden.make_files
"""

import msgspec
import xxhash
from msgspec.structs import replace

from lithify.manifest.codec import encode
from lithify.manifest.jobs import CompactorState, FailureCount, Job, JobError, KeyRange, MergeRules, Plan
from lithify.manifest.model import (
    FORMAT,
    FORMAT_HOMES,
    FORMAT_LISTS,
    Manifest,
    Numbered,
    Retired,
    RetiredList,
    RunList,
    SortedRun,
)
from lithify.manifest.move_price import MovePrice
from lithify.manifest.run_lists import RunListFile
from lithify.manifest.runs import Runs
from tests.golden import make
from tests.golden.make import FOLDER, HEAD, JOB, L0, PARTITION

__all__ = ["FILES", "FORMATS"]

COLD_HOME = "s3://cold/archive"
COLD_REF = replace(L0, id=f"{JOB}-1-0-00000001", home=COLD_HOME, base_offset=None, order="key", added_at=21)
MANIFEST_HOMES = Manifest(
    **HEAD | {"format": FORMAT_HOMES},
    **PARTITION,
    id=22,
    next_offset=103,
    log_start_offset=100,
    runs=(SortedRun(id=JOB, reaches_to=90, segments=(COLD_REF,)),),
    retired=(
        Retired(id=f"{JOB}-1-0-00000000", home="class:STANDARD_IA", bytes=1_234, rows=3, added_at=9, retired_at=21),
    ),
    homes=("class:STANDARD_IA", COLD_HOME),
)
COMPACTOR_RELOCATION = CompactorState(
    **HEAD | {"format": FORMAT_HOMES},
    **PARTITION,
    id=19,
    epoch=2,
    jobs=(
        Job(
            id=JOB,
            kind="relocate",
            status="in_progress",
            origin="scheduler",
            sources=(JOB,),
            segments=(f"{JOB}-1-0-00000000",),
            home=COLD_HOME,
            plan=Plan(
                ranges=(KeyRange(),),
                rules=MergeRules(clock_ms=1_760_000_000_000),
                output_bytes=1_234,
                input_bytes=1_234,
                input_rows=3,
                input_segments=1,
            ),
            created_at_ms=1_760_000_000_000,
        ),
    ),
    failures=(
        FailureCount(
            sources="0123456789abcdef",
            count=0,
            away=3,
            error=JobError("unavailable", "home s3://cold/archive: no answer"),
            retry_at_ms=1_760_000_004_000,
        ),
    ),
)
MANIFEST_MOVED = replace(
    MANIFEST_HOMES,
    id=23,
    runs=(SortedRun(id=JOB, reaches_to=90, segments=(replace(COLD_REF, moved_ms=1_760_000_000_321),)),),
)
COMPACTOR_PRICED = replace(
    COMPACTOR_RELOCATION,
    id=20,
    jobs=(
        replace(
            COMPACTOR_RELOCATION.jobs[0],
            price=MovePrice(segments=1, bytes=1_234, requests_usd=0.25, retrieval_usd=0.5, early_usd=0.125),
        ),
    ),
)
LISTED = tuple(
    replace(L0, id=f"{JOB}-1-{n}-0000000{n}", base_offset=None, min_offset=100 + n, max_offset=100 + n, added_at=at)
    for n, at in enumerate((24, 22, 22))
)
# Of the manifest that first names it, so in its first segment no number is said.
RUN_LIST = RunListFile(
    format=FORMAT_LISTS,
    **PARTITION,
    runs=(SortedRun(id=JOB, reaches_to=90, segments=(replace(LISTED[0], added_at=0), LISTED[1])),),
)
RUN_LIST_BODY = msgspec.json.encode(RUN_LIST) + b"\n"
MANIFEST_LISTS = Manifest(
    **HEAD | {"format": FORMAT_LISTS},
    **PARTITION,
    id=24,
    next_offset=106,
    log_start_offset=100,
    runs=Runs(
        (
            SortedRun(id=JOB, reaches_to=90, segments=LISTED),
            SortedRun(
                id="000000000021-0000abce",
                segments=(replace(LISTED[0], id="000000000021-0000abce-1-0-00000000", min_offset=103, max_offset=105),),
            ),
        )
    ),
    lists=(
        RunList(
            id="00000000000000000023-0123456789abcdef-1",
            segments=2,
            bytes=len(RUN_LIST_BODY),
            added_at=24,
            checksum=xxhash.xxh3_64_hexdigest(RUN_LIST_BODY),
        ),
    ),
    retired_lists=(RetiredList(id="00000000000000000022-00112233445566ff-0", bytes=1_234, added_at=22, retired_at=24),),
)
FILES: dict[str, Numbered] = make.FILES | {
    "manifest-moved": MANIFEST_MOVED,
    "compactor-priced": COMPACTOR_PRICED,
    "manifest-homes": MANIFEST_HOMES,
    "compactor-relocation": COMPACTOR_RELOCATION,
    "manifest-lists": MANIFEST_LISTS,
}
FORMATS: dict[str, int] = dict.fromkeys(
    ("manifest-homes", "manifest-moved", "compactor-relocation", "compactor-priced"), FORMAT_HOMES
)
FORMATS["manifest-lists"] = FORMAT_LISTS
"""Of the files that have a later format than the first."""


def main() -> None:
    for name, value in FILES.items():
        path = FOLDER / f"v{FORMATS.get(name, FORMAT)}" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(encode(value))
    path = FOLDER / f"v{FORMAT_LISTS}" / "run-list.runs"
    if not path.exists():
        path.write_bytes(RUN_LIST_BODY)


if __name__ == "__main__":
    main()
