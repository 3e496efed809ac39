"""`lithify append` from a pipe outlasts an outage: nobody could send what came through it again. It begins and ends at
any request, also in the middle of a batch for several partitions, and after a commit whose outcome is unknown."""

import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lithify.store.errors import AccessDenied, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.cli.conftest import Lithify

pytestmark = pytest.mark.slow
ROWS = [{"key": f"k{number}", "value": str(number)} for number in range(20)]
FLAGS = ("--batch-size", "7")


@contextmanager
def piped(path: Path) -> Iterator[str]:
    """A pipe through which all rows come."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as pipe:
            pipe.write(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield str(path)
    finally:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # or the writer waits for ever, if nobody opened it
        writer.join()
        os.close(reader)


class Away:
    """From request number `at` on the store is away, for `pauses` pauses. `lost`: if that request is a creation, it
    happens, and nobody hears of it."""

    def __init__(
        self,
        patched: pytest.MonkeyPatch,
        at: int,
        pauses: int,
        *,
        lost: bool = False,
        error: type[Unavailable] = Unavailable,
    ) -> None:
        self.requests, self._left, self._at = 0, pauses, at
        get, create = MemoryStore.get, MemoryStore.create

        def away(key: str) -> None:
            self.requests += 1
            if self.requests >= at and self._left:
                raise error(f"{key}: the store is away; retry later")

        def got(store: MemoryStore, key: str) -> Any:
            away(key)
            return get(store, key)

        def created(store: MemoryStore, key: str, body: bytes, frees: bool = False) -> Outcome:
            if lost and self.requests + 1 == at:
                self.requests += 1
                create(store, key, body, frees)
                return Outcome.UNKNOWN
            away(key)
            return create(store, key, body, frees)

        def pause(_ms: int) -> None:
            self._left = max(0, self._left - 1)

        patched.setattr(MemoryStore, "get", got)
        patched.setattr(MemoryStore, "create", created)
        patched.setattr("lithify.store.driver.pause", pause)

    @property
    def begun(self) -> bool:
        return self.requests >= self._at


def stored(lithify: Lithify, topic: str) -> Counter[str]:
    return Counter(line["value"] for line in lithify.records("read", topic))


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_whenever_it_begins(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partitions: int, *, lost: bool
) -> None:
    outlasted = 0
    for at in itertools.count(1):
        topic = f"t{at}"
        lithify.ok("topic", "create", topic, "--partitions", str(partitions))
        with piped(tmp_path / topic) as path, monkeypatch.context() as patched:
            away = Away(patched, at, 40, lost=lost)
            result = lithify("append", topic, "--from", path, *FLAGS, "--json")
        if not away.begun:
            break
        there = stored(lithify, topic)
        if result.exit_code == 0 and "continues as soon" in result.stderr:
            outlasted += 1
            assert result.stderr.count("answers again") == result.stderr.count("continues as soon") == 1
        if result.exit_code:
            assert (result.exit_code, there) == (7, Counter()), result.stderr  # it had not begun
            continue
        assert there == Counter(row["value"] for row in ROWS), result.stderr
        told = json.loads(result.stdout)
        assert (told["appended"], told["already_there"]) == (len(ROWS), 0)
    assert outlasted


def test_a_full_partition_is_no_outage(lithify: Lithify, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before, it said that it goes on once the store answers, though only compaction could help."""
    lithify.ok("topic", "create", "t", "--config", "l0.segments.max=4", "--config", "compaction.paused=true")
    pauses = 0

    def pause(ms: int) -> None:
        nonlocal pauses
        pauses += ms == 1_000  # others slow appends down
        if pauses == 3:
            lithify.ok("topic", "alter", "t", "--unset", "compaction.paused")
            lithify.ok("compactor", "run", "--once", "--engine", "local", "--no-gc")

    with piped(tmp_path / "in") as path, monkeypatch.context() as patched:
        patched.setattr("lithify.store.driver.pause", pause)
        result = lithify("append", "t", "--from", path, "--batch-size", "4")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines() == [
        "lithify: warning: t/0 holds 4 L0 segments, its limit; this append waits until compaction has merged some. "
        "See 'lithify compaction explain t'. Ctrl-C gives up.",
        "lithify: compaction has made room; appending to t continues",
    ]
    assert stored(lithify, "t") == Counter(row["value"] for row in ROWS)


def test_refused_access_ends_it(lithify: Lithify, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "t")
    with piped(tmp_path / "in") as path, monkeypatch.context() as patched:
        Away(patched, 8, 1_000_000, error=AccessDenied)
        assert lithify("append", "t", "--from", path, *FLAGS).exit_code == 7
