"""What an engine leans on may die at any moment: a JVM killed, a context stopped behind its back. It is noticed at the
next use, let go of in peace, and opened anew where it is ours to open.

Tried by hand, one line each, and caught by the quick tests here: a given session is opened anew, a lost one is used,
the one before is not let go, a death is not asked for after an error or of the JVM's process, a waiting job is not let
go.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lithify.manifest.categories import Category
from lithify.store.errors import Unavailable
from lithify.work.held_session import HeldSession, Known, Opened, next_use
from lithify.work.spark_errors import explain
from lithify.work.spark_jobs import RddJobs
from lithify.work.spark_session import Health, context_health
from tests.compactor.dying_spark import ACTS


@pytest.mark.parametrize(
    ("known", "ours", "given"),
    [
        ("nothing", "open", "open"),
        ("opening", "use", "use"),
        ("failed", "open", "open"),
        (Health.WORKS, "use", "use"),
        (Health.STOPPED, "open", "refuse"),
        (Health.LOST, "open", "refuse"),
        (Health.DESERTED, "open", "use"),
    ],
)
def test_what_an_attempt_does_about_the_session(known: Known, ours: str, given: str) -> None:
    assert (next_use(known, given=False), next_use(known, given=True)) == (ours, given)


class Jobs:
    """A session's jobs, and how the session is."""

    workers_share_machine = True

    def __init__(self) -> None:
        self.state = Health.WORKS
        self.closed = 0
        self.alone = False

    def health(self) -> Health:
        return self.state

    def executors(self) -> int | None:
        return None

    def deserted(self) -> bool:
        return self.alone

    def run(self, sealed: str, description: str, tags: Sequence[str], *, short: bool = False) -> str:
        raise OSError("nobody answers")

    def cancel(self, tag: str) -> None:
        raise OSError("nobody answers")

    def abandon(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self.closed += 1


class Opener:
    """Opens sessions, but where the next is to fail."""

    def __init__(self) -> None:
        self.opened: list[Jobs] = []
        self.fails = False

    def __call__(self) -> Opened:
        if self.fails:
            raise Unavailable("no Spark session starts on spark://away")
        self.opened.append(Jobs())
        return Opened(self.opened[-1], self.opened[-1].close)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def nothing() -> None:
    """Nothing is to be prepared."""


def ready(future: Future[Opened]) -> Any:
    return future.result(timeout=60).jobs


@pytest.mark.parametrize("death", [Health.STOPPED, Health.LOST])
def test_a_session_of_ours_that_is_gone_is_let_go_and_opened_anew_once(pool: ThreadPoolExecutor, death: Health) -> None:
    opener = Opener()
    held = HeldSession(pool, opener)
    first = ready(held.current(nothing))
    assert ready(held.current(nothing)) is first
    first.state = death
    second = held.current(nothing)
    assert held.current(nothing) is second, "two attempts share it"
    assert ready(second) is not first
    assert (first.closed, len(opener.opened)) == (1, 2)
    opener.opened[1].state = death
    held.close()
    held.close()
    assert [jobs.closed for jobs in opener.opened] == [1, 1]


def test_one_that_does_not_start_is_tried_again_by_the_next_attempt(pool: ThreadPoolExecutor) -> None:
    opener = Opener()
    opener.fails = True
    held = HeldSession(pool, opener)
    assert isinstance(held.current(nothing).exception(timeout=60), Unavailable)
    opener.fails = False
    assert ready(held.current(nothing)) is opener.opened[0]
    opener.opened[0].state, opener.fails = Health.LOST, True
    assert isinstance(held.current(nothing).exception(timeout=60), Unavailable)
    held.close()
    assert opener.opened[0].closed == 1


@pytest.mark.parametrize(
    ("death", "remedy"), [(Health.STOPPED, "start a new session"), (Health.LOST, "restart this process")]
)
def test_one_that_was_given_is_not_ours_to_open(pool: ThreadPoolExecutor, death: Health, remedy: str) -> None:
    given = Jobs()
    held = HeldSession(pool, Opener(), Opened(given))
    assert ready(held.current(nothing)) is given
    given.state = death
    for _ in range(2):
        with pytest.raises(Unavailable, match=f"the given Spark session .*{remedy}"):
            held.current(nothing)
    held.close()
    assert given.closed == 0


@pytest.mark.parametrize(
    ("words", "health", "category"),
    [
        ("[Errno 111] Connection refused", Health.LOST, Category.ENGINE_LOST),
        ("Answer from Java side is empty", Health.LOST, Category.ENGINE_LOST),
        ("'NoneType' object has no attribute 'removeJobTag'", Health.STOPPED, Category.ENGINE_LOST),
        ("Job 7 cancelled because SparkContext was shut down", Health.WORKS, Category.ENGINE_LOST),
        ("[INVALID_HANDLE.SESSION_CLOSED] the handle is invalid", Health.WORKS, Category.ENGINE_LOST),
        ("status = StatusCode.UNAVAILABLE", Health.WORKS, Category.ENGINE_LOST),
        ("Python worker exited unexpectedly", Health.LOST, Category.ENGINE_LOST),
        ("Python worker exited unexpectedly", Health.WORKS, "memory"),
        ("java.lang.OutOfMemoryError: Java heap space", Health.LOST, "memory"),
        ("anything else", Health.WORKS, "engine"),
    ],
)
def test_a_death_is_told_apart_from_what_the_job_did(words: str, health: Health, category: str) -> None:
    assert explain(RuntimeError(words), health).category == category


def test_an_error_whose_words_nobody_can_ask_for_is_told_all_the_same() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("py4j asks the JVM")

    assert explain(Wordless(), Health.LOST).category == Category.ENGINE_LOST


class Context:
    """What PySpark keeps of a context: its JVM's side, and the gateway to it."""

    def __init__(self, stopped: Callable[[], bool], ended: int | None = None, *, forgotten: bool = False) -> None:
        self.stopped = stopped
        self._gateway = type("Gateway", (), {"proc": type("Process", (), {"poll": lambda _: ended})()})()
        self._jsc = None if forgotten else self

    def sc(self) -> "Context":
        return self

    def isStopped(self) -> bool:  # noqa: N802 - Spark's name
        return self.stopped()


def refused() -> bool:
    raise ConnectionRefusedError("nobody listens")


def test_how_a_context_is() -> None:
    assert context_health(Context(lambda: False)) is Health.WORKS
    assert context_health(Context(lambda: True)) is Health.STOPPED
    assert context_health(Context(refused, forgotten=True)) is Health.STOPPED
    assert context_health(Context(refused)) is Health.LOST
    assert context_health(Context(lambda: False, ended=-9)) is Health.LOST


class Unanswered:
    """A context whose scheduler has ended: a job waits for an answer of the JVM that never comes."""

    def __init__(self) -> None:
        self.socket: Any
        self.socket, self.far = socket.socketpair()
        self.waits = threading.Event()
        self._gateway = self._gateway_client = self._jsc = self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self

    def get_thread_connection(self) -> "Unanswered":
        return self

    def runJob(self, *_: object) -> list[str]:  # noqa: N802 - Spark's name
        self.waits.set()
        if not self.socket.recv(1):
            raise OSError("Answer from Java side is empty")
        return ["never"]

    def close(self) -> None:
        self.socket.close()
        self.far.close()


def test_a_job_that_nobody_will_answer_is_let_go(pool: ThreadPoolExecutor) -> None:
    """Spark's scheduler loses a job that comes while its context stops; stopping the attempt hung on it for ever."""
    context = Unanswered()
    jobs = RddJobs(context)
    waiting = pool.submit(jobs.run, "order", "", ["tag"])
    assert context.waits.wait(60)
    jobs.abandon()
    assert isinstance(waiting.exception(timeout=60), OSError)
    context.close()
    context.socket = None  # as py4j leaves a connection that it closed
    jobs._waiting.add(context)
    jobs.abandon()


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a process that does so prints, by acts: one process, since each start of Spark takes ten seconds. It ends
    well, and leaves nothing in its folder of temporary files."""
    folder = tmp_path_factory.mktemp("deaths")
    (folder / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.compactor.dying_spark", str(folder)],
        env=os.environ | {"TMPDIR": str(folder / "temporary"), "PYSPARK_PYTHON": sys.executable},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert list((folder / "temporary").glob("lithify-spark-*")) == []
    told: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line in ACTS:
            told[line] = []
        else:
            told[list(told)[-1]].append(line)
    return told


@pytest.mark.spark
@pytest.mark.soak
def test_a_given_session_that_died_is_told_and_keeps_no_engine_of_our_own_from_opening_one(
    acts: dict[str, list[str]],
) -> None:
    gone = "Unavailable: the given Spark session is gone because its JVM died: restart this process"
    assert [gone in told for told in acts["given"]] == [True, True]
    assert "idle" in acts


@pytest.mark.spark
@pytest.mark.soak
def test_a_session_that_dies_while_idle_is_opened_anew(acts: dict[str, list[str]]) -> None:
    assert acts["idle"] == ["kill survived", "stop_in_jvm survived"]


@pytest.mark.spark
@pytest.mark.soak
def test_a_job_whose_engine_dies_under_it_goes_on_from_its_ranges(acts: dict[str, list[str]]) -> None:
    """With a cap of one attempt: none of the deaths counts as a failure of the job."""
    assert acts["in mid-job"] == [f"kill {Category.ENGINE_LOST} 2", f"stop {Category.ENGINE_LOST} 2"]


@pytest.mark.spark
@pytest.mark.soak
def test_an_engine_whose_session_died_is_closed_like_any_other(acts: dict[str, list[str]]) -> None:
    assert acts["closed"] == ["InvalidRequest: users/0: this engine is closed; make a new one"]
