"""The server's certificate, taken up anew when its files change."""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from lithify.admin.http.access import stamp
from lithify.store.errors import InvalidRequest

__all__ = ["Certificate"]


class Certificate:
    """`context` is for a listening socket. `look` reads the files again if they have changed; each new connection gets
    the certificate that they had at the latest look. Files that cannot be used, such as a new certificate whose key is
    not there yet, keep the last one; `tell` hears why, once for each change. Thread-safe."""

    def __init__(self, certificate: Path, key: Path, tell: Callable[[InvalidRequest], None]) -> None:
        """PEM files; the certificate's has its chain, too. Raises InvalidRequest if they cannot be used."""
        self._files, self._tell = (certificate, key), tell
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self.context = self._now = self._read()
        self.context.sni_callback = self._choose

    def look(self) -> None:
        with self._lock:
            found = self._stamp()
            if found == self._seen:
                return
            self._seen = found
            try:
                self._now = self._read()
            except InvalidRequest as error:
                self._tell(error)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in each handshake, before a certificate is sent; all other connections wait meanwhile."""
        connection.context = self._now

    def _stamp(self) -> tuple[object, ...]:
        return tuple(stamp(path) for path in self._files)

    def _read(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and later
        try:
            # A key with a passphrase would otherwise ask for it on the terminal.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError:
            why = "they are not PEM files of a certificate and its key, without a passphrase"
            raise InvalidRequest(f"{certificate} and {key} cannot be served: {why}") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise InvalidRequest(f"{certificate} and {key} cannot be served: {why}") from None
        return context
