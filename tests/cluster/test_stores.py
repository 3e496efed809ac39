"""Workers with other credentials and other endpoints than the driver: no request leaves for another host than the
warehouse's, and one message names the worker. Each time lithify reaches the workers in another way."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import lithify
from lithify.testing.server import S3Server
from tests.cluster.daemons import Daemon
from tests.cluster.standalone import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster")]

ROOT = Path(__file__).resolve().parents[2]
WATCH = """
import os, sys
def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        with open({log!r}, "a") as log:
            log.write(f"{{arguments[1][0]}}:{{arguments[1][1]}}\\n")
if "pyspark.daemon" in sys.orig_argv:
    sys.addaudithook(watch)
"""
BARE = {"spark.executorEnv.AWS_EC2_METADATA_DISABLED": "true", "spark.executorEnv.AWS_CONFIG_FILE": "/nowhere"}
KEYS = {"spark.executorEnv.AWS_ACCESS_KEY_ID": "test", "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "test"}
ASTRAY = {
    "spark.executorEnv.AWS_ENDPOINT_URL_S3": "http://127.0.0.2:9",
    "spark.executorEnv.AWS_ENDPOINT_URL": "http://127.0.0.3:9",
    "spark.executorEnv.AWS_REGION": "eu-north-1",
}


class Remote:
    """A warehouse in a bucket, and a compactor over it whose workers are watched."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.url = server.url(f"{server.create_bucket()}/warehouse")
        self._watch = folder / "connections.log"
        (folder / "watch").mkdir()
        (folder / "watch" / "sitecustomize.py").write_text(WATCH.format(log=str(self._watch)))
        self.warehouse = lithify.open(self.url, storage_options=server.options)
        topic = self.warehouse.create_topic("users", config={"cleanup.policy": "compact"})
        for value in (b"free", b"team", b"pro"):
            topic.append([lithify.Record(b"ada", value)])

    def compact(self, cluster: Cluster, conf: dict[str, str]) -> str:
        """What one pass of a compactor says."""
        path = {"spark.executorEnv.PYTHONPATH": str(self._folder / "watch")}
        env = {**self._server.env, "PYTHONPATH": os.getcwd()}
        with Daemon(self.url, cluster.url, self._folder, "--once", conf=BARE | conf | path, **env) as once:
            once.wait(150)
            return once.told()

    def connections(self) -> set[str]:
        """Where workers connected to, but for the JVM of their own executor (which gives them a new port each time)."""
        told = set(self._watch.read_text().split()) if self._watch.exists() else set()
        return {each for each in told if not each.startswith("127.0.0.1:") or each == self.endpoint}

    @property
    def endpoint(self) -> str:
        return self._server.endpoint_url.removeprefix("http://")


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    with S3Server() as server:
        yield Remote(server, tmp_path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    kept = shutil.ignore_patterns(".*", "tests", "docs", "typings", "__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT, folder / "source", ignore=kept)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(folder / "source")], check=True, timeout=120, capture_output=True)
    (made,) = folder.glob("lithify-*.whl")
    return made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose environment has what lithify needs, and not lithify."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in Path(pyarrow.__file__).parents[1].iterdir():
        if "lithify" not in each.name.lower():
            (packages / each.name).symlink_to(each)
    return folder


def test_keys_alone_are_enough_and_other_endpoints_are_not_called(
    cluster: Cluster, remote: Remote, tmp_path: Path, wheel: Path, bare: Path
) -> None:
    """lithify as a zip in pyFiles, for a Python that lacks it."""
    shipped = tmp_path / "lithify.zip"
    shutil.copy(wheel, shipped)
    conf = {"spark.submit.pyFiles": str(shipped), "spark.pyspark.python": str(bare / "bin" / "python")}
    said = remote.compact(cluster, KEYS | ASTRAY | conf)
    info = lithify.Admin(remote.warehouse).compactions("users")[-1]
    assert info.status == "completed", said
    found = remote.warehouse.topic("users").get(b"ada")
    assert found is not None
    assert found.value == b"pro"
    assert remote.connections() == {remote.endpoint}


def test_without_credentials_one_message_names_the_worker(
    cluster: Cluster, remote: Remote, tmp_path: Path, wheel: Path, bare: Path
) -> None:
    """lithify in a packed environment, as venv-pack makes one."""
    packed = tmp_path / "env"
    shutil.copytree(bare, packed, symlinks=True)
    (packages,) = packed.glob("lib/python*/site-packages")
    shutil.unpack_archive(wheel, packages, "zip")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as archive:
        archive.add(packed, ".")
    said = remote.compact(cluster, ASTRAY | {"spark.archives": f"{tmp_path / 'packed.tar.gz'}#packed"})
    (attempt,) = lithify.Admin(remote.warehouse).compactions("users")[-1].attempts
    assert attempt.error is not None, said
    assert attempt.error.category == "store_denied", attempt
    assert attempt.error.reason.startswith("worker "), attempt
    assert "credentials" in attempt.error.reason, attempt
    assert remote.connections() <= {remote.endpoint}
