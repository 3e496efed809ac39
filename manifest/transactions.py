"""Transactions: applications number their own appends (a stream query its batches, an import its rows), so that a
repeated append is stored once. Pure (P6; docs/rfcs/0011).
"""

from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import PASSED_OVER_MAX, TRANSACTIONS_MAX, Manifest, Stretch, Transaction
from lithify.manifest.refusals import not_created
from lithify.store.errors import AlreadyExists, InvalidRequest, LithifyError, Unavailable

__all__ = [
    "EXPIRATION_MS",
    "EndTransaction",
    "ForgetTransaction",
    "Place",
    "Reach",
    "TransactionStamp",
    "dated",
    "earlier_version",
    "find_transaction",
    "reach_of",
    "remember",
]

EXPIRATION_MS = 7 * 86_400_000  # the default of transactional.id.expiration.ms, and Kafka's


class Reach(NamedTuple):
    """How far an application has come: all versions up to `version` are stored, except those that it skipped."""

    version: int = 0
    passed_over: tuple[Stretch, ...] = ()

    def after(self, first: int, last: int) -> "Reach":
        """The reach once the versions from `first` to `last` are stored too. Earlier versions that it has not reached
        are skipped."""
        stretches = [*self.passed_over]
        if first > self.version + 1:
            stretches.append(Stretch(self.version + 1, first - 1))
        left = [Stretch(each.first, min(each.last, first - 1)) for each in stretches]
        right = [Stretch(max(each.first, last + 1), each.last) for each in stretches]
        rest = sorted((each.first, each.last) for each in (*left, *right) if each.first <= each.last)
        return Reach(max(self.version, last), tuple(Stretch(*each) for each in rest))


@dataclass(frozen=True, slots=True)
class TransactionStamp:
    """`version` grows with each append of `application` to this partition; gaps are allowed.

    With `previous` no gap goes unnoticed: the append applies only if the application has come exactly that far (an
    empty Reach: it has sent nothing), so another call's append is never taken for this one. Afterwards the versions
    from `first` to `version` are stored, and earlier ones that were not sent are noted as skipped. `last`: the
    application sends nothing after it.
    """

    application: str
    version: int
    previous: Reach | None = None
    first: int = 1
    last: bool = False

    def reach(self, entry: Transaction | None) -> Reach:
        """How far the application comes with this append."""
        before = Reach() if entry is None else reach_of(entry)
        if self.previous is None:
            return Reach(self.version, before.passed_over)
        return before.after(self.first, self.version)


def reach_of(entry: Transaction) -> Reach:
    return Reach(entry.version, entry.passed_over)


def find_transaction(head: Manifest, application: str) -> Transaction | None:
    return next((entry for entry in head.transactions if entry.application == application), None)


def earlier_version(head: Manifest, stamp: TransactionStamp) -> Already[range] | Refused | None:
    """What the head says about an earlier append of this version, or of a later one. None: it may be appended."""
    where = f"{head.topic}/{head.partition}: transaction {stamp.application!r}"
    last = find_transaction(head, stamp.application)
    if last is None:
        if stamp.previous is None or stamp.previous == Reach():
            return None
        return Refused(
            InvalidRequest(
                f"{where} was at version {stamp.previous.version} and has been forgotten by this partition. Nothing "
                "was appended; compare the log with what was sent before you start over"
            )
        )
    # SUBTLE! 1. Process 1 sends rows 1 to 10 as version 10 and is killed; its request is still on its way. 2. Process 2
    # finds no version and sends rows 1 to 12 as version 12. 3. The late request is committed as version 10. 4. Since 12
    # is larger than 10, rows 1 to 10 would be stored twice. Test: tests/protocol/test_p06_transactions.py
    if stamp.previous is not None and reach_of(last) != stamp.previous:
        return Refused(
            AlreadyExists(
                f"{where} is at version {last.version}, but this append expects {stamp.previous.version} (or other "
                "skipped versions): another process has continued it. Nothing was appended there; read its version, "
                "and continue from it"
            )
        )
    if stamp.previous is not None and stamp.reach(last) != stamp.previous:
        return None  # it goes further, or appends something that was skipped
    if last.version == stamp.version:
        return Already(range(last.base_offset, last.base_offset + last.rows))
    if last.version > stamp.version:
        return Refused(
            AlreadyExists(
                f"{where} version {stamp.version} is before the latest committed version {last.version}: it was "
                "committed or skipped, and is not appended again"
            )
        )
    return None


class Place(NamedTuple):
    """The context of an append that is about to be committed."""

    head: Manifest
    number: int
    now_ms: int
    offsets: range


def remember(
    entries: tuple[Transaction, ...], stamp: TransactionStamp, place: Place, expiration_ms: int
) -> tuple[Transaction, ...] | LithifyError:
    """The entries after an append. At the limit an application that has ended is forgotten; otherwise the one that
    was idle longest, if for longer than `expiration_ms`. An error if there is none."""
    reach = stamp.reach(next((entry for entry in entries if entry.application == stamp.application), None))
    if len(reach.passed_over) > PASSED_OVER_MAX:
        return InvalidRequest(
            f"{place.head.topic}/{place.head.partition}: transaction {stamp.application!r} has skipped versions "
            f"in {PASSED_OVER_MAX} places, its limit. Nothing was appended there; continue under another name "
            "('lithify append' with another --source-id, and the same --skip)"
        )
    mine = Transaction(
        application=stamp.application,
        version=reach.version,
        base_offset=place.offsets.start,
        rows=len(place.offsets),
        touched_at=place.number,
        touched_at_ms=place.now_ms,
        ended=stamp.last,
        passed_over=reach.passed_over,
    )
    kept = tuple(entry for entry in entries if entry.application != mine.application)
    if len(kept) < TRANSACTIONS_MAX:
        return *kept, mine
    leaving = min(
        (entry for entry in kept if entry.ended or _expired(entry, place, expiration_ms)),
        key=lambda entry: (not entry.ended, entry.touched_at),
        default=None,
    )
    if leaving is None:
        topic = place.head.topic
        return Unavailable(
            f"{topic}/{place.head.partition} remembers {TRANSACTIONS_MAX} transaction applications, its limit, and "
            "none of them can be forgotten yet: one must be idle for longer than transactional.id.expiration.ms "
            f"({expiration_ms}), and a garbage collection must have run since. Nothing was appended there; reuse a "
            "name, or forget one that is no longer used: "
            f"'lithify transaction list {topic}', 'lithify transaction forget {topic} APPLICATION'"
        )
    return *(entry for entry in kept if entry is not leaving), mine


def _expired(entry: Transaction, place: Place, expiration_ms: int) -> bool:
    # It must also be below the orphan floor: then a segment that a rival uploaded before the entry's last commit, and
    # has not committed yet, is refused because of its age.
    old = entry.touched_at < place.head.orphan_floor and place.now_ms - entry.touched_at_ms > expiration_ms
    return old and not _awaited(entry, place.head)


def _awaited(entry: Transaction, head: Manifest) -> bool:
    """SUBTLE! The floor refuses no segment of an upload. 1. A driver begins an upload for version 5, and is stopped. 2.
    The same write runs again and appends version 5. 3. The application is idle, and forgotten. 4. The first driver
    goes on, and would append version 5 once more. Test: tests/manifest/test_uploads.py"""
    return any(upload.appended is None and upload.begun_at <= entry.touched_at for upload in head.uploads)


def dated(entries: tuple[Transaction, ...], number: int, now_ms: int) -> tuple[Transaction, ...]:
    """Give entries a date that an earlier lithify left undated: their time counts from now on."""
    if all(entry.touched_at for entry in entries):
        return entries
    return tuple(
        entry if entry.touched_at else replace(entry, touched_at=number, touched_at_ms=now_ms) for entry in entries
    )


@dataclass(frozen=True, slots=True)
class ForgetTransaction:
    """By hand. Anything that the application sends afterwards is appended as if it came for the first time."""

    application: str

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        if head is None or find_transaction(head, self.application) is None:
            return Already(None)
        kept = tuple(entry for entry in head.transactions if entry.application != self.application)
        return Next(replace(head, transactions=kept), None)


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """The application has sent everything: at the limit it is forgotten first. It may still continue.

    `at`: end it only if it has come no further than that.
    """

    application: str
    at: Reach | None = None

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        known = find_transaction(head, self.application)
        if known is None or known.ended or head.sealed:
            return Already(None)
        if self.at is not None and reach_of(known) != self.at:
            return Already(None)  # another process continues it
        entries = tuple(replace(entry, ended=True) if entry is known else entry for entry in head.transactions)
        return Next(replace(head, transactions=entries), None)
