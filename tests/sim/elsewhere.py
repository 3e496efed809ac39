"""Runs a program twice, in new processes with different hash seeds, to compare what they print with what this one
makes of it."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["told_elsewhere"]

ROOT = Path(__file__).resolve().parents[2]


def told_elsewhere(program: str) -> set[str]:
    """What it prints, in two processes that order their hashes differently."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
