"""One job by every way to Spark gives the same records; and whoever finds no free core says so, and waits."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lithify
from tests.cluster.daemons import LOOPBACK, Daemon, Topic
from tests.cluster.standalone import Cluster, Process, free_port, until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(cluster: Cluster, port: int) -> Iterator[Process]:
    """A Spark Connect server on the cluster, all of whose cores it holds."""
    conf = [f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1"]
    conf += ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.executor.memory=512m"]
    flags = [word for each in conf for word in ("--conf", each)]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = ["org.apache.spark.deploy.SparkSubmit", "--master", cluster.url, *flags, "--class", name, "spark-internal"]
    until("the cores of others are free", lambda: cluster.cores_used() == 0)
    started = cluster.java(*submit, name="connect", env={"PYSPARK_PYTHON": sys.executable})
    until("the Connect server", lambda: "Spark Connect server started" in started.told(), 90)
    until("every core is held", lambda: cluster.cores_used() == 2)
    yield started
    started.end()


def digest(folder: Path) -> str:
    """Of every record of the topic after its compaction, with its offset."""
    with lithify.open(folder.as_uri()) as warehouse:
        (info,) = lithify.Admin(warehouse).compactions("users")
        assert info.status == "completed", info
        rows = warehouse.topic("users").partition(0).scan().read_all().to_pylist()
    assert rows
    return hashlib.sha256(repr([(row["key"], row["value"], row["offset"]) for row in rows]).encode()).hexdigest()


def lithify_verify(url: str, cluster: Cluster, folder: Path) -> None:
    """Its tasks run on the cluster, too."""
    words = ["verify", "--deep", "--engine", "spark", "--master", cluster.url]
    words += [f"--spark-conf={name}={value}" for name, value in LOOPBACK.items()]
    env = {**os.environ, "LITHIFY_WAREHOUSE": url, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
    command = [sys.executable, "-m", "lithify.cli.main", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "every live or pinned segment exists and is intact" in done.stdout


def test_classic_cluster_and_connect_give_the_same_records(
    cluster: Cluster, server: Process, port: int, tmp_path: Path
) -> None:
    """And the cluster's compactor meanwhile finds no free core: it says so everywhere, gives up its lease, and goes on
    once there is one."""
    Topic(tmp_path / "first").submit()
    copies = [tmp_path / name for name in ("classic", "connect", "cluster")]
    for each in copies:
        shutil.copytree(tmp_path / "first", each)
    for folder, master in zip(copies[:2], ("local[2]", f"sc://127.0.0.1:{port}"), strict=True):
        with Daemon(folder.as_uri(), master, tmp_path, "--once") as once:
            assert once.wait(150) == 0, once.told()
    url = copies[2].as_uri()
    admin = lithify.Admin(url_opened := lithify.open(url))
    (job,) = admin.compactions("users")
    with Daemon(url, cluster.url, tmp_path, "--executor-wait-ms", "4000") as waits:
        failed = until("an ended attempt", lambda: [a for a in admin.compaction(job.id).attempts if a.error], 120)[0]
        assert failed.error.category == "engine_down"
        assert "Spark gave no executor for 4" in failed.error.reason
        until("explain says so", lambda: "no executor" in admin.explain("users", 0).reason)
        owner = until("nobody at work", lambda: (o := admin.explain("users", 0).compactor) and not o.at_work and o)
        assert owner.name
        assert "no Spark executor yet" in waits.told()
        server.end()
        done = until("its end", lambda: (i := admin.compaction(job.id)).completed_at and i, 120)
        assert done.status == "completed"
        assert done.last_attempt > 1
    url_opened.close()
    lithify_verify(url, cluster, tmp_path)
    assert len({digest(folder) for folder in copies}) == 1
