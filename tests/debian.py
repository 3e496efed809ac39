"""Programs of Debian's packages, unpacked by tools/debian (make soak) or installed on this machine."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

__all__ = ["Program", "program"]

ROOT = Path(__file__).parents[1] / ".debian"
_LIBRARIES = [
    str(found)
    for pattern in ("lib/*-linux-gnu", *(f"usr/lib/*-linux-gnu{more}" for more in ("", "/ceph", "/pulseaudio")))
    for found in ROOT.glob(pattern)
]


class Program(NamedTuple):
    path: str
    environment: dict[str, str]
    """The whole environment of its process."""


def program(name: str) -> Program:
    """Fails if it is neither in .debian/ nor on PATH."""
    # Chromium itself: the script of that name in usr/bin reads /etc/chromium.d, which unpacking does not make.
    for folder in ("usr/lib/chromium", "usr/bin", "usr/sbin"):
        if (unpacked := ROOT / folder / name).exists():
            libraries = os.pathsep.join([*_LIBRARIES, os.environ.get("LD_LIBRARY_PATH", "")])
            return Program(str(unpacked), {**os.environ, "LD_LIBRARY_PATH": libraries})
    installed = shutil.which(name)
    assert installed is not None, f"{name} is not on this machine: `make soak` unpacks it (tools/debian)"
    return Program(installed, dict(os.environ))
