"""The demo's compactor: `lithify compactor run` as a separate process, and the progress of its job."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from lithify.admin.client import Admin
from lithify.compactor.info import CompactionInfo
from lithify.store.driver import pause
from lithify.store.errors import Unavailable

__all__ = ["CompactorProcess", "newest"]

_LOOK_MS = 200
_TAIL_LINES = 15


class CompactorProcess:
    """Runs until nothing is due. As a context manager it is killed if the block ends early.

    Its output goes to `log`; its temporary files go to `folder`, so that a killed one leaves none elsewhere.
    """

    def __init__(self, url: str, engine: str, env: Mapping[str, str], folder: Path, *, take_over: bool = False) -> None:
        command = [sys.executable, "-m", "lithify.cli.main", "compactor", "run", "--once", "--engine", engine]
        command += ["--take-over"] if take_over else []
        self.log = folder / ("take-over.log" if take_over else "compactor.log")
        own = {"LITHIFY_WAREHOUSE": url, "TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder)}
        own["JDK_JAVA_OPTIONS"] = f"{env.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={folder}"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env={**env, **own}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> "CompactorProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, to Spark's Java too: as if the machine had died."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def watch(self, admin: Admin, topic: str, see: Callable[[CompactionInfo], bool]) -> bool:
        """Call `see` with the newest job until it returns True (True), or the process has ended without error (False).

        Raises Unavailable, with the end of its log, if the process failed.
        """
        while self._process.poll() is None:
            job = newest(admin, topic)
            if job is not None and see(job):
                return True
            pause(_LOOK_MS)
        if self._process.returncode != 0:
            tail = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
            raise Unavailable(f"the compactor ended with exit code {self._process.returncode}; its last words:\n{tail}")
        return False


def newest(admin: Admin, topic: str) -> CompactionInfo | None:
    """The running job, or else the last one."""
    jobs = admin.compactions(topic, 0)
    return jobs[-1] if jobs else None
