"""A line to the master of a standalone cluster, which tells at once when that master is gone.

A standalone master that was restarted does not know the applications of before, and Spark's driver never registers
again: its next job would wait for ever for an executor. Nothing that PySpark offers tells this. So a connection is kept
to each master named in the URL. Nothing is sent; the kernel closes it when the master's process ends.
"""

import socket
from contextlib import suppress

from lithify.store.errors import Unavailable

__all__ = ["Line"]

_CONNECT_S = 5
_PORT = 7077
_SCHEME = "spark://"


class Line:
    """Connections to the masters of `spark://host:port,host:port`; to none for any other kind of master. Raises
    Unavailable if no master can be reached."""

    def __init__(self, master: str) -> None:
        self._sockets: list[socket.socket] = []
        if not master.startswith(_SCHEME):
            return
        why = ""
        for address in master.removeprefix(_SCHEME).split(","):
            host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_PORT))
            try:
                made = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or type(error).__name__
                continue
            made.setblocking(False)
            self._sockets.append(made)
        if not self._sockets:
            raise Unavailable(f"{master}: no Spark master can be reached there ({why}): check the URL, or start it")

    @property
    def cut(self) -> bool:
        """Whether every master that was there when the line was laid has ended since. False if there is no line."""
        return bool(self._sockets) and all(map(_ended, self._sockets))

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.close()
        self._sockets = []


def _ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
