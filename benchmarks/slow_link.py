"""A TCP link with a round trip time and a rate per connection, on loopback: what an object store is like from afar.

It is a process of its own, so that what it does is not counted with what is measured. A connection is made at once;
every byte then arrives half a round trip after it was sent, and not faster than the rate.
"""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

__all__ = ["BYTES_PER_S", "RTT_MS", "slow_link"]

RTT_MS = 30
BYTES_PER_S = 90_000_000
_PIECE = 256 << 10
_PIECES_MAX = 64  # under way in one direction of a connection


@contextmanager
def slow_link(port: int, rtt_ms: float = RTT_MS, bytes_per_s: float = BYTES_PER_S) -> Generator[int]:
    """The port of a link to `port`, which ends with the block."""
    command = [sys.executable, "-m", "benchmarks.slow_link", str(port), str(rtt_ms), str(bytes_per_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class _Link:
    def __init__(self, port: int, rtt_ms: float, bytes_per_s: float) -> None:
        self._port = port
        self._half_s = rtt_ms / 2_000
        self._bytes_per_s = bytes_per_s

    async def serve(self) -> None:
        """Until whoever started this process is gone: its end of our input closes."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2 * _PIECE)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2 * _PIECE)
            await asyncio.gather(self._carry(reader, there_writer), self._carry(there_reader, writer))
            there_writer.close()
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction of a connection, to its end."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_MAX)
        arriving = asyncio.ensure_future(self._arrive(under_way, writer))
        clock = asyncio.get_running_loop().time
        free_at = 0.0  # when the line has sent what it was given
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                free_at = max(free_at, clock()) + len(piece) / self._bytes_per_s
                await under_way.put((free_at + self._half_s, piece))
        await under_way.put((clock() + self._half_s, b""))
        await arriving

    async def _arrive(self, under_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        clock, gone = asyncio.get_running_loop().time, False
        while True:
            at, piece = await under_way.get()
            if not gone and (wait_s := at - clock()) > 0:
                await asyncio.sleep(wait_s)
            if not piece:
                break
            try:
                writer.write(piece)
                await writer.drain()
            except OSError:  # the queue is still to be emptied, or its other end would wait for ever
                gone = True
        with suppress(OSError, RuntimeError):
            writer.write_eof()


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.slow_link")
    parser.add_argument("port", type=int)
    parser.add_argument("rtt_ms", type=float)
    parser.add_argument("bytes_per_s", type=float)
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_Link(given.port, given.rtt_ms, given.bytes_per_s).serve())
