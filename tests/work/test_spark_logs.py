"""What a session that lithify opens writes on standard error before it does anything: next to nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPENS = """
from lithify.work.spark_session import open_session, prepare
prepare("local[1]", {})
open_session("local[1]", {})
"""
OF_THE_JVM = "WARNING: Using incubator modules: jdk.incubator.vector"  # no option silences it


def told(env: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", OPENS], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return [line for line in done.stderr.splitlines() if line != OF_THE_JVM]


@pytest.mark.spark
def test_a_session_begins_in_silence() -> None:
    assert told({"SPARK_CONF_DIR": ""}) == []


@pytest.mark.spark
def test_a_log_configuration_of_the_users_wins(tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.a.ref = a\nappender.a.type = Console\n"
        "appender.a.name = a\nappender.a.target = SYSTEM_ERR\n"
        "appender.a.layout.type = PatternLayout\nappender.a.layout.pattern = mine %c{1}%n\n"
    )
    assert "mine NativeCodeLoader" in told({"SPARK_CONF_DIR": str(tmp_path)})
