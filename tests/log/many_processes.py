"""Many processes append to one partition at once; what each was told must be what the log holds."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lithify

PROGRAM = Path(__file__).with_name("appending_process.py")
TIMEOUT_S = 600


def append_at_once(
    url: str, processes: int, appends: int, rows: int, options: Mapping[str, Any] | None = None
) -> lithify.Partition:
    """Every record exactly once, each append's rows together and where its process was told, offsets dense."""
    part = lithify.open(url, storage_options=options).create_topic("t").partition(0)
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), url, "t", f"p{number}", str(appends), str(rows), json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    told = [process.communicate(timeout=TIMEOUT_S)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * processes
    expected: dict[int, tuple[bytes, bytes]] = {}
    for number, starts in enumerate(told):
        assert starts == sorted(starts, key=int)
        for append, start in enumerate(starts):
            for row in range(rows):
                expected[int(start) + row] = (b"p%d" % number, b"%d.%d" % (append, row))
    assert sorted(expected) == list(range(processes * appends * rows))
    found = {record.offset: (record.key, record.value) for record in part.read()}
    assert found == expected
    return part
