"""A standalone Spark cluster of real processes on loopback, from PySpark's own jars: a Master, and Workers of one core.

Everything is waited for by facts that the Master's web page or /proc tell, never for a time.
"""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from lithify.store.driver import monotonic_ms, pause
from lithify.work.java import use_java
from tests.jvm_archive import jvm_options

__all__ = ["Cluster", "Process", "free_port", "running_cluster", "until"]

_LOOK_MS = 50
_STARTS_S = 90


def until(what: str, fact: Callable[[], Any], within_s: float = 60) -> Any:
    """The first truthy answer of `fact`. Fails if none comes in time: `what` says what was missing."""
    deadline_ms = monotonic_ms() + within_s * 1000
    while not (found := fact()):
        assert monotonic_ms() < deadline_ms, f"not within {within_s} s: {what}"
        pause(_LOOK_MS)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Process:
    """A process, which leads a group of its own, and its log."""

    def __init__(self, command: list[str], log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, start_new_session=True
            )
        self.pid = self._process.pid

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    def wait(self, within_s: float) -> int:
        return self._process.wait(within_s)

    def kill(self) -> None:
        """SIGKILL, this process alone."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """SIGKILL to all of its group: nothing that it started outlives the test."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def children(self) -> list[int]:
        return sorted(_descendants({self.pid}))

    def command(self, pid: int) -> str:
        return _command(pid)

    def told(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


class Cluster:
    def __init__(self, folder: Path, stack: ExitStack, workers: int) -> None:
        self._folder = folder
        self._stack = stack
        self.port, self._page = free_port(), free_port()
        self.master: Process
        self.workers: list[Process] = []
        self.start_master()
        until("the Master's page", self.page, _STARTS_S)
        for _ in range(workers):
            self.start_worker()
        self.await_workers(workers)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_master(self) -> None:
        ports = ["--port", str(self.port), "--webui-port", str(self._page)]
        self.master = self.java("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", *ports, name="master")

    def start_worker(self) -> None:
        number = len(list(self._folder.glob("worker-*.log")))
        place = ["--work-dir", str(self._folder / f"work-{number}"), "--webui-port", "0"]
        size = ["--cores", "1", "--memory", "2g"]
        name = "org.apache.spark.deploy.worker.Worker"
        host = f"127.0.0.{2 + number % 200}"  # each a machine of its own, as far as Spark knows
        started = self.java(name, "--host", host, *size, *place, self.url, name=f"worker-{number}")
        self.workers.append(started)

    def java(self, *command: str, name: str, env: Mapping[str, str] | None = None) -> Process:
        """Start a class of Spark's."""
        home = Path(pyspark.__file__).parent
        bare = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "SPARK_", "PYSPARK_"))}
        own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self._folder)}
        own["SPARK_DAEMON_JAVA_OPTS"] = own["SPARK_SUBMIT_OPTS"] = jvm_options()
        log = self._folder / f"{name}.log"
        started = Process([str(home / "bin" / "spark-class"), *command], log, bare | own | dict(env or {}))
        self._stack.callback(started.end)
        return started

    def page(self) -> dict[str, Any] | None:
        """What the Master tells; None: it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json", timeout=5) as reply:
                return json.load(reply)
        except (urllib.error.URLError, OSError, json.JSONDecodeError):
            return None

    def cores_used(self) -> int:
        told = self.page()
        return -1 if told is None else int(told["coresused"])

    def await_workers(self, count: int, within_s: float = _STARTS_S) -> None:
        until(f"{count} Workers at the Master", lambda: (self.page() or {}).get("aliveworkers") == count, within_s)

    def executors(self) -> list[int]:
        """The process ids of all executors."""
        return [pid for pid in _descendants({w.pid for w in self.workers}) if "ExecutorBackend" in _command(pid)]

    def python_workers(self) -> list[int]:
        """Those that `pyspark.daemon` has forked."""
        daemons = {pid for pid in _descendants(set(self.executors())) if "pyspark.daemon" in _command(pid)}
        return [pid for pid in daemons if _parents().get(pid) in daemons]


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parts[2])] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has ended
            continue
    return found


def _descendants(roots: set[int]) -> set[int]:
    parents, found = _parents(), set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - roots


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    use_java()
    with ExitStack() as stack:
        yield Cluster(folder, stack, workers)
