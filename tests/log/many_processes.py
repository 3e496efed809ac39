"""Many processes append to one partition at once; what each was told must be what the log holds."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lithify

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600


def append_at_once(
    url: str, processes: int, appends: int, rows: int, options: Mapping[str, Any] | None = None
) -> lithify.Partition:
    """Every record exactly once, each append's rows together and where its process was told, offsets dense."""
    part = lithify.open(url, storage_options=options).create_topic("t").partition(0)
    numbers = [str(number) for number in (processes, appends, rows)]
    command = [sys.executable, "-m", "tests.log.appending_processes", url, "t", *numbers, json.dumps(options)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0
    told: dict[str, list[int]] = {f"p{number}": [] for number in range(processes)}
    for line in done.stdout.splitlines():
        name, start = line.split()
        told[name].append(int(start))
    expected: dict[int, tuple[bytes, bytes]] = {}
    for name, starts in told.items():
        assert starts == sorted(starts)
        for append, start in enumerate(starts):
            for row in range(rows):
                expected[start + row] = (name.encode(), b"%d.%d" % (append, row))
    assert sorted(expected) == list(range(processes * appends * rows))
    found = {record.offset: (record.key, record.value) for record in part.read()}
    assert found == expected
    return part
