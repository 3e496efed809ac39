"""A store that refuses who asks, for a while: an expired credential, a missing permission. At whatever request of a job
it begins, nothing that was recorded is given up, the daemon waits, and the job ends once it is let in again (P12, P14).
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.failures import RETRY_MAX_MS
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import LithifyError
from lithify.store.file_errors import explained
from lithify.store.port import Create, Get, Head, List, Put, Request
from lithify.store.s3_errors import explain, outcome_of_failure
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol import scene
from tests.protocol.scene import KEYS, ROWS, append_rows, new_partition

CONFIG = replace(scene.CONFIG, compaction_attempts_max=2)
PASSES_REFUSED = 5  # more than those
STEPS_OF_A_PASS_MAX = 20
OF_THE_STORE = (Create, Get, Head, List, Put)


def of_s3(status: int, code: str) -> Callable[[Request[Any]], None]:
    reply: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def refuse(request: Request[Any]) -> None:
        raised(request, ClientError(reply, {Create: "PutObject", Put: "PutObject"}.get(type(request), "GetObject")))

    return refuse


def raised(request: Request[Any], error: Exception) -> None:
    """As the store for S3 tells it."""
    found = outcome_of_failure(error, "s3://b/k") if isinstance(request, Create) else explain(error, "s3://b/k")
    assert isinstance(found, LithifyError)
    raise found


def of_a_folder(number: int) -> Callable[[Request[Any]], None]:
    def refuse(_: Request[Any]) -> None:
        with explained(Path("/folder/k")):
            raise OSError(number, "refused")

    return refuse


REFUSALS: dict[str, Callable[[Request[Any]], None]] = {
    "AccessDenied": of_s3(403, "AccessDenied"),
    "ExpiredToken": of_s3(400, "ExpiredToken"),
    "InvalidToken": of_s3(400, "InvalidToken"),
    "InvalidAccessKeyId": of_s3(403, "InvalidAccessKeyId"),
    "SignatureDoesNotMatch": of_s3(403, "SignatureDoesNotMatch"),
    "RequestTimeTooSkewed": of_s3(403, "RequestTimeTooSkewed"),
    "Unauthorized": of_s3(401, "Unauthorized"),
    "no credentials": lambda request: raised(request, NoCredentialsError()),
    "EACCES": of_a_folder(errno.EACCES),
    "EPERM": of_a_folder(errno.EPERM),
    "EROFS": of_a_folder(errno.EROFS),
}


class Refusing(World):
    """Refuses the n-th request, `alone` or with `all` that follow, or with those `like` it: a permission for one kind
    of object is missing."""

    def __init__(self, first: int, refuse: Callable[[Request[Any]], None], others: str) -> None:
        super().__init__(0)
        self.asked = 0
        self.first = first
        self.refused: Callable[[Request[Any]], bool] | None = None
        self._refuse = refuse
        self._others = others

    def _answer(self, request: Request[Any]) -> Any:
        if isinstance(request, OF_THE_STORE):
            self.asked += 1
            if self.asked == self.first:
                kind = kind_of(request)
                if self._others == "alone":
                    self._refuse(request)
                self.refused = lambda other: self._others == "all" or kind_of(other) == kind
            if self.refused is not None and self.refused(request):
                self._refuse(request)
        return super()._answer(request)

    def let_in(self) -> None:
        self.first, self.refused = -1, None


def kind_of(request: Request[Any]) -> tuple[bool, str]:
    key = getattr(request, "key", "") or getattr(request, "prefix", "")
    return isinstance(request, (Create, Put)), key.rpartition("/")[0]


def passes(world: World, coordinator: Coordinator, written: list[str], count: int) -> None:
    """What a daemon does with a partition: steps while there is work, and rests."""
    for _ in range(count):
        for _ in range(STEPS_OF_A_PASS_MAX):
            try:
                step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), written))
            except LithifyError:
                break
            if step.outcome != "worked" and (step.job is None or step.job.active):
                break
        else:
            raise AssertionError("it does not pause")
        world.now_ms += RETRY_MAX_MS


def run(first: int, refuse: Callable[[Request[Any]], None], others: str, *, near: bool) -> int:
    """One job, met by a refusal at its `first` request of the store; answers with how many requests there were."""
    world = Refusing(0, refuse, others)
    world.near = near
    world.objects.update(new_partition().objects)
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    coordinator, written = Coordinator(PartitionFiles(KEYS), "me:1"), list[str]()
    world.asked, world.first = 0, first
    passes(world, coordinator, written, PASSES_REFUSED)
    asked = world.asked
    world.let_in()
    state = world.alone(PartitionFiles(KEYS).compactor_state())
    jobs = () if state is None else state.jobs
    recorded = [ref.id for job in jobs for ref in job.outputs()]
    passes(world, coordinator, written, 3)

    state, head = world.alone(PartitionFiles(KEYS).compactor_state()), world.alone(PartitionFiles(KEYS).head())
    assert [(job.status, job.error) for job in state.history] == [("completed", None)]
    assert not state.jobs
    live = [segment.id for segment in head.segments()]
    assert set(recorded) <= set(live), "what was recorded is given up"
    ranges = [segment_id.split("-")[3] for segment_id in written if segment_id in recorded or segment_id in live]
    assert len(ranges) == len(set(ranges)), "what was recorded is made again"
    assert head.quarantine is None
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("others", ["alone", "like", "all"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_job_outlives_a_refusal_at_each_of_its_requests(refusal: str, others: str) -> None:
    """Where first searches look for numbers, and where a listing says where to begin, which saves requests."""
    near, far = (run(-1, REFUSALS[refusal], others, near=near) for near in (True, False))
    assert near > 60
    assert near > far
    for is_near, requests in ((True, near), (False, far)):
        for first in range(1, requests + 1):
            run(first, REFUSALS[refusal], others, near=is_near)
