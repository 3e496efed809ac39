"""Who may do what over HTTP: tokens with roles, the hosts and origins that are ours, and a pause for whoever guesses
(docs/rfcs/0018). Reads no clock and sends nothing; `TokenFile` and `stamp` alone look at files."""

import enum
import hashlib
import hmac
import ipaddress
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from lithify.store.errors import InvalidRequest

__all__ = ["Door", "Guesses", "Known", "Role", "TokenFile", "Tokens", "is_loopback", "stamp"]

TOKEN_CHARS_MIN = 32
TOKENS_MAX = 1_000
SENDERS_MAX = 1_024  # whose wrong tokens are remembered
GUESSES_FREE = 5  # from so many wrong tokens on, a sender is told to wait
PAUSE_MS_MAX = 60_000
_NAME = re.compile(r"[a-z0-9._-]+")


class Role(enum.IntEnum):
    """Each may do what the ones before it may."""

    READ = 1  # every GET
    OPERATE = 2  # compactions, pause, retry, checkpoints, garbage collection
    ADMIN = 3  # topics

    @property
    def word(self) -> str:
        return self.name.lower()


class Known(NamedTuple):
    """A token that was found: its role, and a name for the log that tells nothing of the token."""

    role: Role
    name: str


class Tokens:
    """Tokens and their roles.

    >>> tokens = Tokens.parse("read:" + "a" * 32, "LITHIFY_HTTP_TOKENS")
    >>> tokens.find("a" * 32).role.word
    'read'
    >>> tokens.find("b" * 32) is None
    True
    """

    def __init__(self, entries: Iterable[tuple[Role, str]]) -> None:
        self._digests = {_digest(token): role for role, token in entries}

    def __len__(self) -> int:
        return len(self._digests)

    @staticmethod
    def parse(text: str, where: str) -> "Tokens":
        """One `role:token` a line; empty lines and lines that begin with # are skipped. `where` names the file or
        variable in errors, which never quote a line. Raises InvalidRequest."""
        entries: dict[str, Role] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            place = f"{where}, line {number}"
            word, colon, token = line.strip().partition(":")
            if not colon or word.upper() not in Role.__members__:
                raise InvalidRequest(f"{place}: give role:token, with the role read, operate or admin")
            if len(token) < TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable() or " " in token:
                raise InvalidRequest(
                    f"{place}: a token is at least {TOKEN_CHARS_MIN} printable ASCII characters without spaces; "
                    "`openssl rand -hex 32` makes one"
                )
            if token in entries:
                raise InvalidRequest(f"{place}: the same token stands in an earlier line: give each its own")
            entries[token] = Role[word.upper()]
        if not entries:
            raise InvalidRequest(f"{where} has no token: give one role:token a line")
        if len(entries) > TOKENS_MAX:
            raise InvalidRequest(f"{where} has {len(entries)} tokens; at most {TOKENS_MAX} are allowed")
        return Tokens((role, token) for token, role in entries.items())

    def find(self, token: str) -> Known | None:
        """Takes the same time whichever token it is like: its digest is compared with all of them."""
        given, found = _digest(token), None
        for digest, role in self._digests.items():
            if hmac.compare_digest(digest, given):
                found = role
        return None if found is None else Known(found, f"{found.word}-{hashlib.sha256(given).hexdigest()[:6]}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def stamp(path: Path) -> tuple[int, int, int] | None:
    """It changes when the file does. None: it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class TokenFile:
    """The tokens of a file. `look` reads it again if it has changed; `tokens` touches no file: requests wait for
    it. A change that cannot be read keeps the last tokens; `tell` hears why, once for each change. Thread-safe."""

    def __init__(self, path: Path, tell: Callable[[InvalidRequest], None]) -> None:
        """Raises InvalidRequest if the file cannot be used."""
        self._path, self._tell = path, tell
        self._lock = threading.Lock()
        self._seen = stamp(path)
        self._tokens = self._read()

    def tokens(self) -> Tokens:
        return self._tokens

    def look(self) -> None:
        with self._lock:
            found = stamp(self._path)
            if found == self._seen:
                return
            self._seen = found
            try:
                self._tokens = self._read()
            except InvalidRequest as error:
                self._tell(error)

    def _read(self) -> Tokens:
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidRequest(f"the tokens in {self._path} cannot be read: {why}") from None
        return Tokens.parse(text, str(self._path))


class Door:
    """Which hosts and origins are ours.

    SUBTLE! 1. A page of evil.example makes its own name resolve to 127.0.0.1. 2. The browser takes this server for
    evil.example, and lets the page read its answers. The request's Host is still evil.example, so it is refused here.
    Without a foreign Host, a page of another origin can still send requests that change something, though it cannot
    read the answers. Those carry its Origin, which is not the Host's, and are refused. Test:
    tests/admin/http/test_access.py
    """

    def __init__(self, names: Iterable[str], loopback: bool) -> None:
        """`names`: the address that is served, and further names by which clients reach it. `loopback`: whether it is
        served there alone; then every name of loopback is ours. Elsewhere every address in digits is: nobody can make
        another name resolve to a Host in digits. Raises InvalidRequest."""
        self._names = set(map(_checked, names))
        self._loopback = loopback

    def admits_host(self, host: str | None) -> bool:
        """Any port: an SSH tunnel or a port that is forwarded changes it, and what is ours is told by the name."""
        name = _host_name(host or "")
        if name is None:
            return False
        if name in self._names:
            return True
        return is_loopback(name) if self._loopback else _is_address(name)

    def admits_origin(self, origin: str | None, host: str | None) -> bool:
        """None: whoever asks is no browser, or asks for a page of its own."""
        if origin is None:
            return True
        scheme, _, authority = origin.partition("://")
        return scheme in ("http", "https") and self.admits_host(authority) and authority.lower() == (host or "").lower()


def _checked(name: str) -> str:
    """A host's name as `_host_name` has it; its port does not matter."""
    found = name.lower() if _is_address(name) else _host_name(name)
    if found is None or not (_is_address(found) or _NAME.fullmatch(found)):
        raise InvalidRequest(f"{name[:100]!r} is no name of a host: give one such as lithify.example")
    return found


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _host_name(authority: str) -> str | None:
    """The name in name, name:port, or [address]:port; None if it is none of these."""
    if authority.startswith("["):
        inner, bracket, port = authority[1:].partition("]")
        name, port = inner, port.removeprefix(":")
        if not bracket:
            return None
    else:
        name, _, port = authority.partition(":")
    if not name or (port and not (port.isascii() and port.isdigit())):
        return None
    return name.rstrip(".").lower()


class Guesses:
    """How long whoever gives wrong tokens is to wait: a second from the fifth on, then twice as long each time, up to a
    minute. A right token is never refused: others may share a sender's address, behind a proxy. Remembers the latest
    1,024 senders. Thread-safe."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def wrong(self, sender: str) -> int:
        """One more; returns the milliseconds to wait, 0 for the first four."""
        with self._lock:
            count = self._wrong.pop(sender, 0) + 1
            self._wrong[sender] = count
            while len(self._wrong) > SENDERS_MAX:
                self._wrong.popitem(last=False)
        return 0 if count < GUESSES_FREE else min(1_000 << min(count - GUESSES_FREE, 10), PAUSE_MS_MAX)

    def right(self, sender: str) -> None:
        with self._lock:
            self._wrong.pop(sender, None)
