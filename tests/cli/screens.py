"""Recordings of every table, made on a real terminal of 80, 100 and 160 columns: tests/golden/screens.

python -m tests.cli.screens         renews them; look at what git then shows
python -m tests.cli.screens play    what is recorded: a warehouse whose clock and ids are counted, and commands
"""

import fcntl
import itertools
import os
import pty
import re
import shlex
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "golden" / "screens"
WIDTHS = (80, 100, 160)
NOW_MS = 1_767_225_600_000
LONG = "customer-profile-changes-by-region-and-segment"

# The compaction's id is put in for {job}.
COMMANDS = (
    "warehouse describe",
    "topic list",
    "compactor run --once --engine local --concurrency 1 --parallelism 1",
    "topic describe users",
    f"topic describe {LONG}",
    "topic describe clicks",
    "topic describe users --partition 0",
    f"topic describe {LONG} --partition 0",
    "topic describe clicks --partition 0",
    "compaction list",
    "compaction status {job}",
    "compaction explain users",
    f"compaction explain {LONG}",
    "checkpoint list users",
    "consumer list users",
    "transaction list users",
    "manifest show users",
    f"manifest show {LONG}",
    "verify --engine local",
    "doctor",
    "top --once",
    "gc run --dry-run --sweep",
    "gc run --once",
    "topic alter users --config cold.location=memory://screens-cold",
    "home relocate users",
    "compactor run --once --engine local --concurrency 1 --parallelism 1",
    "home status users",
    "top --once",
)


def record(width: int, *more: str, **variables: str) -> str:
    """What a terminal of `width` columns gets, with its escape sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LITHIFY", "COLUMNS"))}
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | variables
    command = [sys.executable, "-m", "tests.cli.screens", "play", *more]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    ) as it:
        os.close(theirs)
        found = b"".join(_all(ours))
        assert it.stderr is not None
        told = it.stderr.read().decode()
    os.close(ours)
    assert it.returncode == 0, told
    return found.decode().replace("\r\n", "\n")


def plain(screen: str) -> str:
    """What a person sees. Ids are numbered as they appear, and requests are not counted: both follow from how often
    the store is asked, which no table is about."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    text = re.sub(r"\d+ GETs?, \d+ PUTs?: [0-9.]+ USD", "9 GETs, 1 PUT: 0.000009 USD", text)
    known: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        digits = found[0]
        return known.setdefault(digits, f"{(len(known) + 1) * 0x9E3779B1:016x}"[-len(digits) :])

    return re.sub(r"(?<![0-9a-f])([0-9a-f]{16}|(?<=[0-9]-)[0-9a-f]{8})(?![0-9a-f])", numbered, text)


def _all(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the last one who held it open is gone
            return
        if not piece:
            return
        yield piece


def play(commands: tuple[str, ...]) -> None:
    """In the child. The clock goes on by a second with each command, and ids are counted."""
    from lithify.store import driver

    clock, ids = Clock(), itertools.count(1)
    driver.machine_ms = clock
    driver.new_id = lambda: f"{next(ids) * 0x9E3779B97F4A7C15 & (1 << 64) - 1:016x}"

    import lithify

    os.environ["LITHIFY_WAREHOUSE"] = "memory://screens"
    warehouse = lithify.open("memory://screens")
    _same_everywhere()
    _fill(warehouse, clock)
    for command in commands or COMMANDS:
        clock.now_ms += 1_000
        if "{job}" in command:
            command = command.replace("{job}", lithify.Admin(warehouse).compactions(LONG)[-1].id)
        print(f"$ lithify {command}", flush=True)
        code = _call(command)
        print(f"({code})\n" if code else "", flush=True)


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def _call(command: str) -> int:
    from lithify.cli.main import cli

    try:
        cli.main(shlex.split(command), prog_name="lithify")
    except SystemExit as ended:
        return int(ended.code or 0)


def _fill(warehouse: "lithify.Warehouse", clock: Clock) -> None:  # noqa: F821
    import lithify

    compacted = {"cleanup.policy": "compact"}
    users = warehouse.create_topic("users", partitions=2, config=compacted, probe=False)
    long = warehouse.create_topic(LONG, config=compacted)
    clicks = warehouse.create_topic("clicks", config={"retention.records": "20", "retention.ms": "604800000"})
    for topic, count in ((users, 400), (long, 3_000), (clicks, 30)):
        for part in range(3):
            clock.now_ms += 1_000
            topic.append([record_of(n) for n in range(part * count, (part + 1) * count)])
    part = users.partition(0)
    part.append([lithify.Record(b"last", b"one")], txn=("import monthly-figures-of-the-whole-group.jsonl", 12))
    part.snapshot(pin="before-the-migration-of-customers")
    users.partition(1).snapshot(pin="nightly", ttl=86_400_000)
    with part.consumer("audit-of-customer-changes") as consumer:
        consumer.poll(timeout_ms=0)
    engine = lithify.LocalEngine(parallelism=1)
    with closing(lithify.Compactor(warehouse, engine, concurrency=1)) as compactor:
        compactor.run_once()
    for number in range(3):
        long.append([record_of(n) for n in range(number, 1_500, 3)])
    users.append([record_of(n) for n in range(90)])


def record_of(number: int) -> "lithify.Record":  # noqa: F821
    import lithify

    return lithify.Record(b"customer-%06d" % (number % 997), b"plan %d " % number * 9, NOW_MS - 1_000_000 + number)


def _same_everywhere() -> None:
    """What would tell of this machine: its name, its memory, its programs."""
    from lithify.cli import doctor
    from lithify.segment import execute
    from lithify.store import probe

    os.getpid = lambda: 4711
    execute._peak_memory_bytes = lambda: 140 << 20
    socket.gethostname = lambda: "compactor-1"
    check = doctor.Check
    probe._latency = lambda store, prefix: "a GET takes 34 ms, a PUT 37 ms (medians of 9)"
    doctor._versions = lambda: iter([check("lithify", "ok", "0.1.0, Python 3.13.1"), check("pyarrow", "ok", "26.0.1")])
    doctor._java = lambda: iter([check("java", "ok", "/usr/lib/jvm/java-21-openjdk-amd64/bin/java")])
    doctor._space = lambda: iter([check("temporary folder", "ok", "112.9 GiB free in /tmp")])


def main() -> None:
    if sys.argv[1:2] == ["play"]:
        play(tuple(sys.argv[2:]))
        return
    FOLDER.mkdir(exist_ok=True)
    for width in WIDTHS:
        (FOLDER / f"{width}.txt").write_text(plain(record(width)), encoding="utf-8")


if __name__ == "__main__":
    main()
