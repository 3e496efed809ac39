"""The bounds that the months are judged by, each with the page that it comes from."""

from tests.sim.months.clock import DAY_MS, HOUR_MS, MINUTE_MS

__all__ = [
    "BOUNDARY_STEP",
    "COLLECTED_AGAIN_MS",
    "EDIT_MS",
    "GARBAGE_MS",
    "LISTS",
    "ORPHAN_MS",
    "PASS_MS",
    "REST_MS",
    "ROUND_MS",
    "SERVED_AGAIN_MS",
    "SHORT_BYTES",
    "SHORT_MS",
    "STORE_BACK_MS",
    "SWEEP_MS",
    "file_bytes",
    "long_ms",
    "short_ms",
]

# How the services of the months are run.
ROUND_MS = 3 * MINUTE_MS  # --interval-ms
REST_MS = 12 * MINUTE_MS  # --rest-ms; that of collection has its default
PASS_MS = 15 * MINUTE_MS  # of collection
SWEEP_MS = DAY_MS
GRACE_MS = HOUR_MS  # the default of --gc-grace-ms (docs/cli.md, "Settings")

# When a promise is not counted: a standby claims after a lease of 30 s in which something was due (RFC 0014); a job
# that met an outage is tried again after ten minutes at most (RFC 0003).
LEASE_MS = 30_000
SERVED_AGAIN_MS = LEASE_MS + 3 * ROUND_MS
STORE_BACK_MS = 10 * MINUTE_MS + SERVED_AGAIN_MS
COLLECTED_AGAIN_MS = 2 * PASS_MS

# RFC 0014: a short job "is over in about a minute" and waits for short ones at most; of n partitions that wait each has
# its turn within 4 n jobs; an edit begins beside all jobs, in the round that finds it.
SHORT_BYTES = 256 << 20
SHORT_MS = MINUTE_MS
TURNS = 4
# RFC 0026: what others append where nothing was due is noticed within the rest.
EDIT_MS = REST_MS + 3 * ROUND_MS + SHORT_MS


def short_ms(partitions: int) -> int:
    """How long what a short job pays may wait."""
    return REST_MS + TURNS * partitions * SHORT_MS + 2 * ROUND_MS


def long_ms(partitions: int, job_ms: int) -> int:
    """How long any other debt may wait, where of two workers one has the job of hours and another job takes `job_ms` at
    most."""
    return REST_MS + TURNS * partitions * max(job_ms, SHORT_MS) + 2 * ROUND_MS


# RFC 0005: the boundary reaches the heads that a boundary file noted, once that is a grace period old; one ages at a
# time. So what is retired waits for the rest of one, and then for the next. What no list knows is swept.
GARBAGE_MS = 2 * GRACE_MS + 4 * PASS_MS
BOUNDARY_STEP = 256  # numbers that are not worth a boundary file (RFC 0005, departures)
ORPHAN_MS = 2 * SWEEP_MS + GARBAGE_MS

# The lists of numbered files: how long any may get, by docs/formats.md; and where less is promised, so long.
LISTS = {
    ("manifest", "completed_jobs"): 4,  # forgotten with a later compaction (docs/protocol.md, "A compaction's life")
    ("manifest", "time_index"): 128,
    ("manifest", "checkpoints"): 256,
    ("manifest", "retired"): 16_384,
    ("compactor", "jobs"): 3,  # one, what relieves it, and what that left behind (RFC 0014)
    ("compactor", "history"): 64,
    ("compactor", "failures"): 256,
    ("compactor", "attempts"): 16,  # of one job
}

FILE_BYTES, REFERENCE_BYTES, RANGE_BYTES = 128 << 10, 500, 1_200


def file_bytes(references: int, ranges: int) -> int:
    """How large a numbered file may be: 350 bytes a reference (RFC 0002), and as much again as a name here takes; a
    range of a job with its bounds and outputs."""
    return FILE_BYTES + REFERENCE_BYTES * references + RANGE_BYTES * ranges
