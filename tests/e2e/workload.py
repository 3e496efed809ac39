"""A keyed change stream and its model, and processes that compact it: what the end-to-end tests share."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

import lithify
from lithify.admin.daemon import leave_on_signals
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.metered import Metered

CONFIG = {"cleanup.policy": "compact", "compaction.output.bytes": 16 * 1024}

_COMPACTOR = """
import sys
from tests.e2e.workload import compact_and_die
compact_and_die(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""


class Workload:
    """Random updates and deletions of `keys` keys, appended in batches; `model` is what a scan must show."""

    def __init__(self, seed: int, keys: int = 4_000) -> None:
        self._dice = random.Random(seed)
        self._keys = keys
        self.model: dict[bytes, bytes] = {}
        self.appended = 0

    def append(self, partition: lithify.Partition, rows: int) -> range:
        keys = [b"user-%08d" % self._dice.randrange(self._keys) for _ in range(rows)]
        values = [None if self._dice.random() < 0.1 else self._dice.randbytes(60) for _ in range(rows)]
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        offsets = partition.append(table)
        self.appended += rows
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value
        return offsets


def scanned(source: Any) -> dict[bytes, bytes]:
    table = source.scan().read_all()
    keys = table["key"].to_pylist()
    assert keys == sorted(set(keys)), "a scan shows each key once, in order"
    return dict(zip(keys, table["value"].to_pylist(), strict=True))


def partition_files(warehouse: lithify.Warehouse, topic: str, partition: int = 0) -> PartitionFiles:
    """The numbered files of a partition, to look behind the face."""
    known = warehouse.driver.run(live_topic(topic_lineage(topic), topic))
    return PartitionFiles(partition_keys(known)[partition])


class DyingStore:
    """A store whose process gets a signal at its n-th request, before or after the request is carried out."""

    def __init__(self, inner: Any, requests: int, number: signal.Signals, heard: threading.Event) -> None:
        self.inner = inner
        self._left = requests
        self._signal = number
        self._heard = heard
        self._lock = threading.Lock()

    def once(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if name not in ("create", "get", "read", "put", "output", "head", "list", "delete"):
            return value

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._lock:  # one request is the n-th: a second signal would end the process at once
                self._left -= 1
                mine = self._left == 0
            if mine and self._signal is signal.SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = value(*args, **kwargs)
            if mine:
                os.kill(os.getpid(), self._signal)
                assert self._heard.wait(60)  # else the whole job may be done before
            return answer

        return counted


def compact_and_die(url: str, requests: int, signal_name: str) -> None:
    """One pass of a compactor that is sent `signal_name` at its n-th request; 0: it lives."""
    warehouse = lithify.open(url)
    heard = threading.Event()
    warehouse.driver = Driver(DyingStore(warehouse.store, requests, signal.Signals[signal_name], heard))
    compactor = lithify.Compactor(warehouse, engine="local")

    def stop() -> None:
        compactor.stop()
        heard.set()

    with leave_on_signals(stop):
        compactor.run_once(take_over=True)
    compactor.close()


def run_compactor(url: str, requests: int, signal_name: str) -> int:
    """Run a compactor in a process of its own; answers with its exit code (negative: the signal that ended it)."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", _COMPACTOR, url, str(requests), signal_name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2_000:]
    return done.returncode


def segment_ids(warehouse: lithify.Warehouse) -> set[str]:
    store = warehouse.store
    assert isinstance(store, Metered)
    found: set[str] = set()
    token: str | None = None
    while True:
        page = store.list("", token)
        found |= {o.key.rpartition("/")[2].removesuffix(".parquet") for o in page.objects if o.key.endswith(".parquet")}
        token = page.token
        if token is None:
            return found
