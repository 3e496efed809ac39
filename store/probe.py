"""Does this very bucket and prefix keep the promises that commits rely on? `lithify doctor` prints the answer.

Four negative answers are distinguished, because the caller reacts to each differently: *unsafe* (it was seen to break a
promise), *unfit* (a log cannot be kept there: no such bucket, no conditional put, a file where a folder should be),
*refused* (this identity or user lacks a permission that a log needs), *unavailable* (it did not answer, so nothing is
known about it). The probe has short deadlines, so that an outage is reported within seconds.

Creating twice in a row proves little: there are stores that refuse the second create, but let two simultaneous ones
both win. So rounds of simultaneous creates decide, and the object's body shows who really won.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import msgspec

from lithify.store.driver import machine_ms, monotonic_ms, new_id, pause
from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.file import TEMPORARY, FileStore
from lithify.store.listing import objects
from lithify.store.port import Outcome, Store
from lithify.store.urls import shown

__all__ = ["Finding", "ProbeCheck", "ProbeReport", "probe", "probe_apart"]

_WRITERS = 8
_CREATES_MAX = 4
_TIMED = 9
_ROUND_DEADLINE_S = 20
_SKEW_WARNING_MS = 5 * 60 * 1000  # S3 refuses requests that are 15 minutes off
_REMEDY = "do not keep a log here: commits of two writers could both win"


Finding = Literal["unsafe", "unfit", "refused", "unavailable"]  # the most serious first


class ProbeCheck(msgspec.Struct, frozen=True):
    """`severity`: how serious it is if not ok. `finding`: why a failure is one."""

    name: str
    ok: bool
    detail: str
    severity: Literal["failure", "warning"] = "failure"
    finding: Finding | None = None


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe of `url` found, up to the first request without an answer. `skew_ms`: the store's clock minus this
    machine's."""

    url: str
    checks: tuple[ProbeCheck, ...]
    skew_ms: int | None = None
    endpoint: str = ""  # the address asked, for stores on the network

    @property
    def ok(self) -> bool:
        return not any(check.severity == "failure" and not check.ok for check in self.checks)

    @property
    def finding(self) -> Finding | None:
        """The most serious one; None if all is well."""
        found = {check.finding for check in self.checks}
        return next((each for each in get_args(Finding) if each in found), None)

    def require(self) -> None:
        """Raises InvalidRequest if the store is unsafe or unfit, AccessDenied if it refuses access, Unavailable if it
        did not answer."""
        because = self._because()
        at = f" at {self.endpoint}" if self.endpoint else ""
        match self.finding:
            case "unsafe":
                raise InvalidRequest(f"{self.url} is not safe for a log: {because}; {_REMEDY}")
            case "unfit":
                raise InvalidRequest(f"{self.url}{at} cannot be used for a log as it is: {because}")
            case "refused":
                raise AccessDenied(f"{self.url}{at} denies this process access that a log needs: {because}")
            case "unavailable":
                raise Unavailable(f"{self.url}{at} did not answer, so nothing is known of it yet: {because}")
            case None:
                return

    def _because(self) -> str:
        failed = [check for check in self.checks if check.finding == self.finding]
        told = [f"{check.name} ({check.detail})" for check in failed]
        if self.finding == "unsafe" or len(failed) == 1:
            return "; ".join(told)
        # What is refused after the first is so for the same cause, mostly.
        return f"{told[0]}; also {', '.join(check.name for check in failed[1:])}"


def probe(store: Store, rounds: int = 16, *, timed: bool = False) -> ProbeReport:
    """Probe `store` under a prefix of its own, which is removed afterwards. Takes about 30 requests per round; ends at
    the first one that is not answered. `timed`: also say how long a request takes.

    Never raises for what it finds: each finding is a check.
    """
    store = store.hasty()
    prefix = f".lithify-probe/{new_id()}/"
    steps: list[tuple[str, Callable[[Store, str], str]]] = [
        ("answer", _answer),
        ("create if absent", _create_twice),
        ("simultaneous creates", lambda store, prefix: _race(store, prefix, rounds)),
        ("read after write", _read_after_write),
        ("range read", _range_read),
        ("list after write", _list_after_write),
        ("delete", _delete),
        *([("latency", _latency)] if timed else []),
        ("clean up", _clean_up),
    ]
    checks: list[ProbeCheck] = []
    try:
        for name, step in steps:
            if name == "simultaneous creates" and checks[-1].finding in ("refused", "unfit"):
                continue  # eight writers would be refused as the one was
            checks.append(_run(name, step, store, prefix))
            if checks[-1].finding == "unavailable":
                return ProbeReport(shown(store.url), tuple(checks), endpoint=_endpoint(store))
    except KeyboardInterrupt:
        _run("clean up", _clean_up, store, prefix)
        raise
    versioning = _versioning(store, not any(check.finding == "unsafe" for check in checks[1:3]))
    skew_ms, skew = _skew(store)
    return ProbeReport(shown(store.url), (*checks, *versioning, *skew), skew_ms, _endpoint(store))


def probe_apart(store: Store, rounds: int = 16, *, timed: bool = False) -> ProbeReport:
    """As `probe`. But a folder in which nothing was ever stored is tried in a folder of its own, in it or, if it is
    missing, in the nearest one above it: of a mistyped path nothing stays."""
    path = Path(store.url.removeprefix("file://"))
    with suppress(OSError):
        there = next(each for each in (path, *path.parents) if each.exists())
        if store.url.startswith("file://") and there.is_dir() and not (path / TEMPORARY).exists():
            with TemporaryDirectory(prefix=".lithify-probe-", dir=there) as folder:
                return msgspec.structs.replace(probe(FileStore(folder), rounds, timed=timed), url=shown(store.url))
    return probe(store, rounds, timed=timed)  # which says why it cannot be tried


def _endpoint(store: Store) -> str:
    return shown(store.endpoint_url)


class _Failed(Exception):
    pass


def _run(name: str, step: Callable[[Store, str], str], store: Store, prefix: str) -> ProbeCheck:
    try:
        return ProbeCheck(name, True, step(store, prefix))
    except (_Failed, Corrupt, NotFound) as error:
        return ProbeCheck(name, False, str(error), finding="unsafe")
    except AccessDenied as error:
        return ProbeCheck(name, False, str(error), finding="refused")
    except Unavailable as error:
        return ProbeCheck(name, False, str(error), finding="unavailable")
    except LithifyError as error:
        return ProbeCheck(name, False, str(error), finding="unfit")


def _answer(store: Store, prefix: str) -> str:
    if store.get(prefix + "nothing") is not None:
        raise _Failed("the store returned an object that was never written")
    return "an object that was never written is absent"


def _create_twice(store: Store, prefix: str) -> str:
    key = prefix + "twice"
    first = _settled(store, key, b"first")
    second = store.create(key, b"second")
    found = store.get(key)
    if found is None or found.body != b"first":
        raise _Failed("the second create replaced the first: If-None-Match is ignored here")
    if first is not Outcome.CREATED or second is Outcome.CREATED:
        raise _Failed(f"creating twice answered {first.value}, then {second.value}")
    return "the second create is refused"


def _settled(store: Store, key: str, body: bytes) -> Outcome:
    """One create, repeated while its outcome is unknown. EXISTS with our own body counts as CREATED."""
    for number in range(_CREATES_MAX):
        if number:
            pause(50 * 2**number)
        outcome = store.create(key, body)
        if outcome is Outcome.EXISTS:
            found = store.get(key)
            return Outcome.CREATED if found is not None and found.body == body else Outcome.EXISTS
        if outcome is Outcome.CREATED:
            return outcome
    raise Unavailable(
        f"{shown(store.url)}/{key}: no certain answer to {_CREATES_MAX} conditional puts; try again later"
    )


def _race(store: Store, prefix: str, rounds: int) -> str:
    barrier = threading.Barrier(_WRITERS, timeout=_ROUND_DEADLINE_S)
    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="lithify-probe") as pool:
        for number in range(rounds):
            key = f"{prefix}race/{number:05d}"
            bodies = [f"{number} writer {writer} ".encode() * 64 for writer in range(_WRITERS)]

            def attempt(body: bytes, key: str = key) -> Outcome | LithifyError:
                try:
                    store.get(key)  # so that the connection is open and idle before the start
                    barrier.wait()
                    return store.create(key, body)
                except LithifyError as error:
                    barrier.abort()
                    return error
                except threading.BrokenBarrierError:
                    return Unavailable(f"{shown(store.url)}/{key}: the round was aborted; probe again")

            _judge(store, key, list(zip(bodies, pool.map(attempt, bodies), strict=True)), number)
    return f"{rounds} rounds of {_WRITERS} writers, one winner in each"


def _judge(store: Store, key: str, attempts: list[tuple[bytes, Outcome | LithifyError]], number: int) -> None:
    for _, outcome in attempts:
        if isinstance(outcome, LithifyError):
            raise outcome
    winners = [body for body, outcome in attempts if outcome is Outcome.CREATED]
    unknown = [body for body, outcome in attempts if outcome is Outcome.UNKNOWN]
    found = store.get(key)
    if len(winners) > 1:
        raise _Failed(f"in round {number}, {len(winners)} of {len(attempts)} writers were told that they had won")
    if winners and (found is None or found.body != winners[0]):
        raise _Failed(f"in round {number} the stored object is not the winner's")
    if not winners and not unknown:
        raise _Failed(f"in round {number} no writer won")
    if not winners and found is not None and found.body not in unknown:
        raise _Failed(f"in round {number} the stored object is that of a refused writer")


def _read_after_write(store: Store, prefix: str) -> str:
    for body in (b"one", b"another"):
        store.put(prefix + "object", body)
        found = store.get(prefix + "object")
        if found is None or found.body != body:
            raise _Failed("an object just written was not read back")
    return "a new object, and a replaced one, are read at once"


def _range_read(store: Store, prefix: str) -> str:
    store.put(prefix + "range", bytes(range(256)))
    if store.read(prefix + "range", 100, 50) != bytes(range(100, 150)):
        raise _Failed("a range of bytes came back wrong")
    return "a range of bytes is read exactly"


def _list_after_write(store: Store, prefix: str) -> str:
    store.put(prefix + "object", b"listed")
    if prefix + "object" not in _keys(store, prefix):
        raise _Failed("an object just written is not listed")
    return "an object just written is listed"


def _delete(store: Store, prefix: str) -> str:
    store.put(prefix + "object", b"deleted")
    _remove(store, [prefix + "object"])
    if store.get(prefix + "object") is not None or prefix + "object" in _keys(store, prefix):
        raise _Failed("a deleted object is still there")
    return "a deleted object is gone at once"


def _latency(store: Store, prefix: str) -> str:
    key, puts, gets = prefix + "timed", list[int](), list[int]()
    for _ in range(_TIMED):
        began_ms = monotonic_ms()
        store.put(key, b"timed")
        put_ms = monotonic_ms()
        store.get(key)
        puts.append(put_ms - began_ms)
        gets.append(monotonic_ms() - put_ms)
    return f"a GET takes {_ms_text(gets)}, a PUT {_ms_text(puts)} (medians of {_TIMED})"


def _ms_text(times_ms: list[int]) -> str:
    ms = sorted(times_ms)[len(times_ms) // 2]
    return f"{ms} ms" if ms else "less than 1 ms"


def _clean_up(store: Store, prefix: str) -> str:
    keys = _keys(store, prefix)
    _remove(store, keys)
    return f"{len(keys)} objects of the probe removed"


def _remove(store: Store, keys: list[str]) -> None:
    for key, why in store.delete(keys).items():
        raise AccessDenied(f"{shown(store.url)}/{key} could not be deleted: {why}")


def _keys(store: Store, prefix: str) -> list[str]:
    return [found.key for found in objects(store, prefix)]


def _versioning(store: Store, conditional: bool) -> tuple[ProbeCheck, ...]:
    """On Ceph, versioned buckets ignore conditions; elsewhere they keep deleted objects, and charge for them."""
    state = store.versioning()
    if state is None:
        return ()
    if state == "Off":
        return (ProbeCheck("versioning", True, "off"),)
    if conditional:
        detail = f"{state}: deleted objects stay as old versions; add a lifecycle rule that expires them"
        return (ProbeCheck("versioning", False, detail, "warning"),)
    detail = f"{state}, and conditions are ignored: use a bucket without versioning"
    return (ProbeCheck("versioning", False, detail, finding="unsafe"),)


def _skew(store: Store) -> tuple[int | None, tuple[ProbeCheck, ...]]:
    try:
        skew_ms = store.now() - machine_ms()
    except LithifyError as error:
        return None, (ProbeCheck("clock", False, str(error), "warning"),)
    near = abs(skew_ms) < _SKEW_WARNING_MS
    detail = f"the store's clock is {abs(skew_ms)} ms {'ahead of' if skew_ms > 0 else 'behind'} this machine's"
    return skew_ms, (ProbeCheck("clock", near, detail, "warning"),)
