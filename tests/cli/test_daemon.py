"""The service's loops, without a process of their own."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lithify.admin.daemon import Collecting, Compacting, leave_on_signals, run_together
from lithify.cli.running import make_collector
from lithify.compactor.compactor import Compactor
from lithify.compactor.info import PartitionReport
from lithify.gc.collector import Collector, GcReport
from lithify.log import warehouse as warehouses
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import new_id
from lithify.store.errors import EpochRegression, InvalidRequest, Unavailable


@pytest.fixture
def warehouse() -> Warehouse:
    return warehouses.open(f"memory://{new_id()}")


class Runs:
    """Stands before a compactor: each run has its fate, and the last one ends the service."""

    def __init__(self, real: Compactor, fates: list[Callable[[], None]]) -> None:
        self._real = real
        self._fates = fates
        self.done = 0
        self.service: Compacting

    def run(self, take_over: bool) -> None:
        fate = self._fates[self.done]
        self.done += 1
        if self.done == len(self._fates):
            self.service.stop()
        fate()
        self._real.run(take_over, lambda _: self._real.stop())

    def close(self) -> None:
        self._real.close()

    def stop(self) -> None:
        """The real one goes on until it has told something: only the loop is under test."""


def fine() -> None:
    """A run like any other."""


def service(warehouse: Warehouse, *fates: Callable[[], None]) -> tuple[Compacting, Runs]:
    runs = Runs(Compactor(warehouse, "local"), list(fates))
    made = runs.service = Compacting(runs, interval_ms=1)  # type: ignore[arg-type]
    return made, runs


def raising(error: Exception) -> Callable[[], None]:
    def fate() -> None:
        raise error

    return fate


def test_a_fault_of_ours_is_logged_and_the_next_run_works(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"})
    topic.append([Record(b"k", b"v"), Record(b"k", b"w")])
    made, runs = service(warehouse, raising(Unavailable("the store sleeps")), raising(KeyError("a record")), fine)
    with capture_logs() as logs:
        made.run()
    assert runs.done == 3
    failed = [entry for entry in logs if entry["event"] == "compaction failed"]
    assert [entry["kind"] for entry in failed] == ["Unavailable", "Unexpected"]
    assert "unexpected KeyError at tests.cli.test_daemon" in failed[1]["error"]
    assert "a record" not in str(failed)
    assert len(topic.partition(0).describe().runs) == 1


def test_topics_that_cannot_be_listed_end_no_service(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, and once that it is over; whoever is known is served meanwhile."""
    topic = warehouse.create_topic("users", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0})
    topic.append([Record(b"k", b"v"), Record(b"k", b"w")])
    folders, told = warehouse.store.folders, list[PartitionReport]()

    def failing(prefix: str) -> Any:
        worked = sum(report.outcome == "worked" for report in told)
        if worked == 1:
            if topic.partition(0).describe().next_offset == 2:  # once: what comes while this is merged may stay
                topic.append([Record(b"k", b"x")])
            raise Unavailable("the store sleeps")
        if worked:
            compactor.stop()
        return folders(prefix)

    monkeypatch.setattr(warehouse.store, "folders", failing)
    compactor = Compactor(warehouse, "local", interval_ms=1)
    with capture_logs() as logs:
        compactor.run(tell=told.append)
    events = [entry["event"] for entry in logs if "topics" in entry["event"]]
    assert events == ["topics not listed", "no longer: topics not listed"]
    assert not topic.partition(0).describe().l0, "what came while they could not be listed is merged"


def test_a_store_that_went_back_in_time_ends_the_service_and_with_it_the_collector(warehouse: Warehouse) -> None:
    error = EpochRegression("back in time")
    made, _ = service(warehouse, raising(error), fine)
    collecting = Collecting(Collector(warehouse), interval_ms=3_600_000, sweep_interval_ms=3_600_000)
    with pytest.raises(EpochRegression) as raised:
        run_together([made, collecting])
    assert raised.value is error


def test_idleness_is_silent(warehouse: Warehouse) -> None:
    warehouse.create_topic("users")
    made, _ = service(warehouse, fine, fine, fine)
    with capture_logs() as logs:
        made.run()
    assert logs == []


def test_sweeps_are_rare_and_failures_do_not_end_collecting(warehouse: Warehouse) -> None:
    swept: list[bool] = []

    class Counting(Collector):
        def run_once(self, dry_run: bool = False, sweep: bool = False) -> GcReport:
            swept.append(sweep)
            if len(swept) == 5:
                collecting.stop()
            if len(swept) == 2:
                raise Unavailable("the store sleeps")
            return super().run_once(dry_run, sweep)

    collecting = Collecting(Counting(warehouse), interval_ms=2, sweep_interval_ms=3_600_000)
    with capture_logs() as logs:
        collecting.run()
    assert swept[0] is False
    assert sum(swept) == 1
    assert [entry["event"] for entry in logs if entry["log_level"] != "debug"] == ["collection failed"]


def test_stopping_ends_a_rest(warehouse: Warehouse) -> None:
    made = Compacting(Compactor(warehouse, "local"), interval_ms=3_600_000)
    running = threading.Thread(target=made.run)
    running.start()
    made.stop()
    running.join(60)
    assert not running.is_alive()


def test_logs_go_to_standard_error_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    from lithify.cli.logs import set_up_logs

    set_up_logs("json", "info")
    structlog.get_logger().info("told", topic="users")
    structlog.get_logger().debug("not told")
    set_up_logs("text", "warning")
    structlog.get_logger().warning("told as text", topic="users")
    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert '"event": "told"' in first
    assert "told as text" in second
    assert captured.out == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_heard_while_the_main_thread_cannot(number: signal.Signals) -> None:
    """A thread that is about to block is not interrupted any more: shut out here for certain, by its mask."""
    stopped = threading.Event()
    with leave_on_signals(stopped.set):
        shut_out = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        try:
            os.kill(os.getpid(), number)
            assert stopped.wait(60)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, shut_out)


def test_a_session_that_ends_sends_two_signals_and_still_there_is_time_to_leave() -> None:
    heard: list[int] = []
    twice = threading.Event()

    def stop() -> None:
        heard.append(len(heard))
        if len(heard) == 4:
            twice.set()

    with leave_on_signals(stop):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert twice.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_hangup_that_comes_after_it_has_left_ends_nothing(number: signal.Signals) -> None:
    stopped = threading.Event()
    with leave_on_signals(stopped.set):
        os.kill(os.getpid(), number)
        assert stopped.wait(60)
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_outside_of_it_signals_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    with leave_on_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before
    woken = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(woken)
    assert woken == -1


def test_a_short_grace_period_is_told_to_who_reads_the_log(warehouse: Warehouse) -> None:
    with capture_logs() as log:
        Collector(warehouse)
        Collector(warehouse, grace_ms=0)  # said plainly: nobody else is there
        assert not log
        Collector(warehouse, grace_ms=10_000)
        make_collector(warehouse, 0)
    assert [(line["log_level"], "CommitUnknown" in line["event"]) for line in log] == [("warning", True)] * 2
    with pytest.raises(InvalidRequest, match="grace_ms is -1"):
        Collector(warehouse, grace_ms=-1)
