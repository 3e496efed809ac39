"""What goes wrong on the way to an S3 server, dealt from a seed to a share of all requests."""

import random
import threading
from collections import Counter

from lithify.testing.front import Deed, Seen

LATE_MS = 150
DELAY_MS = 60

_PAGE = "<html><head><title>no backend</title></head></html>"

_ANY = {
    "reply lost after the deed": Deed(reply="none"),
    "reset after the deed": Deed(reply="reset"),
    "reset before the deed": Deed(forward=False, reply="reset"),
    "reply delayed": Deed(delay_ms=DELAY_MS),
    "500 after the deed": Deed(status=500, code="InternalError"),
    "503 before the deed": Deed(forward=False, status=503, code="SlowDown"),
    "a proxy's 404 before the deed": Deed(forward=False, status=404, body=_PAGE, kind="text/html"),
    "a proxy's 403 after the deed": Deed(status=403, body=_PAGE, kind="text/html"),
    "a proxy's 302 before the deed": Deed(forward=False, status=302, body=_PAGE, kind="text/html"),
    "a proxy's 200 before the deed": Deed(forward=False, status=200, body=_PAGE, kind="text/html"),
}
_OF_READS = {
    "reply truncated": Deed(reply="half"),
    "reply truncated within its chunks": Deed(reply="chunks"),
    "headers truncated": Deed(reply="headers"),
}
_OF_WRITES = {"deed arrives late": Deed(late_ms=LATE_MS), "deed sent twice": Deed(twice=True)}
_OF_CREATES = {
    "409 before the deed": Deed(forward=False, status=409, code="ConditionalRequestConflict"),
    "409 after the deed": Deed(status=409, code="ConditionalRequestConflict"),
}


KINDS = {*_ANY, *_OF_READS, *_OF_WRITES, *_OF_CREATES}


class Faults:
    """The rule of a `Front`: which deed each request meets. The n-th request meets the n-th cast of the seed's dice;
    which request is the n-th is up to the threads. Thread-safe."""

    def __init__(self, seed: int, share: float) -> None:
        self.on = False  # while it is off nothing goes wrong, and nothing is counted
        self.requests = 0
        self.faulty: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self._wanted = share
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Deed:
        with self._lock:
            if not self.on:
                return Deed()
            self.requests += 1
            if self._dice.random() >= self._wanted:
                return Deed()
            kinds = dict(_ANY)
            kinds |= _OF_READS if seen.method == "GET" else {}
            kinds |= _OF_WRITES if seen.method in ("PUT", "POST", "DELETE") else {}
            kinds |= _OF_CREATES if seen.conditional else {}
            kind = self._dice.choice(sorted(kinds))
            self.faulty[kind] += 1
            return kinds[kind]

    @property
    def share(self) -> float:
        return self.faulty.total() / self.requests
