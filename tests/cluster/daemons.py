"""Compactors as users run them, on a cluster, and topics whose jobs take them some seconds."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lithify
from lithify.compactor.info import CompactionInfo
from tests.cluster.standalone import Cluster, Process, until
from tests.e2e.workload import CONFIG, Workload, scanned
from tests.jvm_archive import jvm_options

__all__ = ["LOOPBACK", "Daemon", "Topic", "await_idle"]

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Topic:
    """A topic in a folder, its model, and its compactions."""

    def __init__(self, folder: Path, seed: int = 9) -> None:
        self.url = folder.as_uri()
        self.warehouse = lithify.open(self.url)
        self._topic = self.warehouse.create_topic("users", 1, {**CONFIG, "min.cleanable.dirty.ratio": 1})
        self._workload = Workload(seed)
        self._admin = lithify.Admin(self.warehouse)

    def submit(self) -> str:
        """New records, and a full compaction of all, of some thirty ranges; its id."""
        for _ in range(2):
            self._workload.append(self._topic.partition(0), 3_000)
        return self._admin.submit("users", 0).id

    def job(self, compaction: str) -> CompactionInfo:
        return self._admin.compaction(compaction)

    def explained(self) -> str:
        return self._admin.explain("users", 0).reason

    def await_written(self, compaction: str, segments: int, within_s: float = 120) -> CompactionInfo:
        def written() -> CompactionInfo | None:
            job = self.job(compaction)
            assert job.status in ("submitted", "in_progress"), job
            return job if job.progress.output_segments_written >= segments else None

        return until(f"{segments} segments of {compaction}", written, within_s)

    def await_done(self, compaction: str, within_s: float = 120) -> CompactionInfo:
        """Completed within that time, and exact."""

        def done() -> CompactionInfo | None:
            job = self.job(compaction)
            return None if job.status in ("submitted", "in_progress") else job

        job = until(f"the end of {compaction}", done, within_s)
        assert job.status == "completed", job
        assert scanned(self._topic.partition(0)) == self._workload.model
        return job


class Daemon(Process):
    """`lithify compactor run`, with a short interval."""

    def __init__(
        self, url: str, master: str, folder: Path, *flags: str, conf: Mapping[str, str] | None = None, **env: str
    ) -> None:
        number = len(list(folder.glob("daemon-*.log")))
        given = LOOPBACK | {"spark.executor.extraJavaOptions": jvm_options()} | dict(conf or {})
        command = [sys.executable, "-m", "lithify.cli.main", "compactor", "run", "--master", master, "--no-gc"]
        command += ["--no-probe", *flags] if "--once" in flags else ["--no-probe", "--interval-ms", "500", *flags]
        if not master.startswith("sc://"):
            command += [f"--spark-conf={name}={value}" for name, value in given.items()]
        bare = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "SPARK_", "PYSPARK_"))}
        own = {"LITHIFY_WAREHOUSE": url, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
        own["SPARK_SUBMIT_OPTS"] = jvm_options()
        super().__init__(command, folder / f"daemon-{number}.log", bare | own | env)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()


def await_idle(cluster: Cluster) -> None:
    until("all cores free", lambda: cluster.cores_used() == 0, 60)
