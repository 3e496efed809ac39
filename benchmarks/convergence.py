"""What the policy makes of ten thousand appends, workload by workload: rows without Parquet (benchmarks.simulation)."""

import msgspec

from benchmarks.workloads import WORKLOADS, run

__all__ = ["Convergence", "convergence"]

_APPENDS = 10_000
_QUICK_APPENDS = 100


class Convergence(msgspec.Struct, frozen=True):
    """Of one workload."""

    workload: str
    write_amplification: float  # bytes of appends and of all outputs of compactions, over bytes of appends
    read_amplification: float  # L0 segments and runs that a scan merges; mean over the visits of the compactor
    l0_max: int
    l0_limit: int
    runs_max: int
    runs_limit: int
    jobs: dict[str, int]  # by the debt they named
    fruitless: int  # jobs that did not lessen it
    settled: bool  # left alone, with every lag past, nothing is due any more

    @property
    def ends(self) -> bool:
        within = self.l0_max <= self.l0_limit and self.runs_max <= self.runs_limit
        return within and self.settled and not self.fruitless


def convergence(quick: bool) -> list[Convergence]:
    return [_one(name, _QUICK_APPENDS if quick else _APPENDS) for name in WORKLOADS]


def _one(name: str, appends: int) -> Convergence:
    outcome = run(WORKLOADS[name], appends)
    found = outcome.figures
    return Convergence(
        workload=name,
        write_amplification=found.write_amplification,
        read_amplification=found.read_amplification,
        l0_max=found.l0_max,
        l0_limit=outcome.l0_limit,
        runs_max=found.runs_max,
        runs_limit=outcome.runs_limit,
        jobs=dict(found.jobs),
        fruitless=len(found.fruitless),
        settled=outcome.settled,
    )
