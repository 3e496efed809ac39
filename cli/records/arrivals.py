"""Records that arrive one after the other, through a pipe or from a terminal: how long a batch waits for more."""

import io
import os
import select
import stat
from collections.abc import Callable, Iterator
from typing import Any

from lithify.cli.records.pipes import Pipe

__all__ = ["Linger", "arrives", "ready"]


def arrives(file: Any) -> bool:
    """Whether its content arrives bit by bit, as that of a pipe, a terminal or a socket."""
    if not isinstance(file, io.FileIO | io.BufferedReader):
        return False
    if not isinstance(getattr(file, "raw", file), io.FileIO | Pipe):
        return False  # decompressed, or of a store
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


Ready = Callable[[Any, int | None], bool]


def ready(file: Any, timeout_ms: int | None) -> bool:
    """Whether something has arrived, or the end of it all, within a time; None: waits for ever."""
    return bool(select.select([file], [], [], None if timeout_ms is None else timeout_ms / 1_000)[0])


class Linger:
    """A batch is sealed `linger_ms` after its first record came. `monotonic_ms`: a clock of this process; `now_ms`: the
    store's, asked once for each batch, so each record has the time when it came and costs no request."""

    def __init__(
        self,
        linger_ms: int,
        monotonic_ms: Callable[[], int],
        now_ms: Callable[[], int],
        wait: Ready = ready,
    ) -> None:
        self._linger_ms = linger_ms
        self._monotonic_ms = monotonic_ms
        self._now_ms = now_ms
        self._wait = wait
        self._began_ms: int | None = None  # when the first record of the batch came, by the monotonic clock
        self._began_at_ms = 0  # the same by the store's

    def came(self) -> int:
        """A record has come; returns its time."""
        now_ms = self._monotonic_ms()
        if self._began_ms is None:
            self._began_ms, self._began_at_ms = now_ms, self._now_ms()
        return self._began_at_ms + now_ms - self._began_ms

    def sealed(self) -> None:
        self._began_ms = None

    @property
    def over(self) -> bool:
        return self._began_ms is not None and self._left_ms() == 0

    def _left_ms(self) -> int | None:
        if self._began_ms is None:
            return None
        return max(self._began_ms + self._linger_ms - self._monotonic_ms(), 0)

    def pieces(self, file: Any, size: int) -> Iterator[bytes]:
        """What has come, as it comes. An empty piece: the batch has waited long enough, or the command is told to end.

        Requires: `file` is buffered with less than `size`, so that nothing that has come stays unseen in its buffer.
        """
        while True:
            try:
                come = self._wait(file, self._left_ms())
            except KeyboardInterrupt:
                yield b""  # nobody else has the records that were read: they are appended before it ends
                raise
            if not come:
                yield b""
                continue
            piece = file.read1(size) if hasattr(file, "read1") else file.read(size)
            if not piece:
                return
            yield piece
