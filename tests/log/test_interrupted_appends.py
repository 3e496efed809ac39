"""Ctrl-C at any moment of a real program: what signals do to locks cannot be played otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("interrupted_appends.py")


@pytest.mark.slow
def test_interrupts_of_the_main_thread_leave_the_others_whole() -> None:
    """SUBTLE in log/commit_queue.py and log/handle.py. Without them it hangs within some hundreds of interrupts."""
    done = subprocess.run([sys.executable, PROGRAM, "300"], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "whole True\n", done.stdout + done.stderr[-3_000:]
