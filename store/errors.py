"""What can go wrong. Each class is what the caller must do next, which is its `remedy`:

    LithifyError
    ├── InvalidRequest
    ├── NotFound
    ├── AlreadyExists
    ├── Fenced
    │   └── EpochRegression
    ├── CommitUnknown
    ├── Unavailable
    │   └── AccessDenied
    ├── SnapshotExpired
    ├── Corrupt
    └── OffsetOutOfRange

A result that is only not known yet raises none of these: waiting for a delivery raises Python's TimeoutError, and goes
on.

Every message names the topic, partition or object and what to do next; none holds a secret or a record's contents.
"""

from enum import StrEnum
from typing import ClassVar

__all__ = [
    "RESTORE",
    "AccessDenied",
    "AlreadyExists",
    "CommitUnknown",
    "Corrupt",
    "EpochRegression",
    "ErrorKind",
    "Fenced",
    "InvalidRequest",
    "LithifyError",
    "NotFound",
    "OffsetOutOfRange",
    "SnapshotExpired",
    "Unavailable",
    "error_class",
    "error_classes",
]

# How messages about a damaged object end. Verifying repairs nothing: it tells what has to be restored.
RESTORE = "Run `lithify verify` to find all that is damaged, restore those objects from a copy, then retry"


class ErrorKind(StrEnum):
    """The kinds of errors, as reports and JSON name them."""

    INVALID_REQUEST = "InvalidRequest"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    FENCED = "Fenced"
    EPOCH_REGRESSION = "EpochRegression"
    COMMIT_UNKNOWN = "CommitUnknown"
    UNAVAILABLE = "Unavailable"
    ACCESS_DENIED = "AccessDenied"
    SNAPSHOT_EXPIRED = "SnapshotExpired"
    CORRUPT = "Corrupt"
    OFFSET_OUT_OF_RANGE = "OffsetOutOfRange"
    UNEXPECTED = "Unexpected"  # a bug in lithify


class LithifyError(Exception):
    """The base class; by itself it reports a bug in lithify. Each class has its kind, what to do about it, the exit
    code of the command line, the HTTP status, and whether the same request may simply be repeated."""

    kind: ClassVar[ErrorKind] = ErrorKind.UNEXPECTED
    remedy: ClassVar[str] = "a bug in lithify: please report it"
    exit_code: ClassVar[int] = 70  # EX_SOFTWARE of sysexits.h
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class InvalidRequest(LithifyError):
    kind = ErrorKind.INVALID_REQUEST
    remedy = "fix the request, the flags or the configuration; nothing was done"
    exit_code = 2
    http_status = 400


class NotFound(LithifyError):
    """`key`: that of the missing object; "" if something else is missing, such as a topic or a checkpoint. `segment`:
    the id of the segment that was read there, if any."""

    kind = ErrorKind.NOT_FOUND
    remedy = "name something that exists"
    exit_code = 3
    http_status = 404

    def __init__(self, message: str, key: str = "", segment: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.segment = segment


class AlreadyExists(LithifyError):
    kind = ErrorKind.ALREADY_EXISTS
    remedy = "pick another name, or use what is there"
    exit_code = 4
    http_status = 409


class Fenced(LithifyError):
    kind = ErrorKind.FENCED
    remedy = "stop: another compactor, producer or consumer has taken over"
    exit_code = 5
    http_status = 409


class EpochRegression(Fenced):
    """The stored epoch is smaller than one this process has committed: the store lost acknowledged writes."""

    kind = ErrorKind.EPOCH_REGRESSION
    remedy = "stop every compactor and investigate: the store went back in time and has lost acknowledged writes"


class CommitUnknown(LithifyError):
    """The commit may or may not have happened; nothing was deleted.

    `token` can be given to `Partition.outcome` later, from any process, to find out.
    """

    kind = ErrorKind.COMMIT_UNKNOWN
    remedy = "check before you retry: it may have happened"
    exit_code = 6
    http_status = 504

    def __init__(self, message: str, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class Unavailable(LithifyError):
    kind = ErrorKind.UNAVAILABLE
    remedy = "retry later: the store cannot be reached, or compaction is behind"
    exit_code = 7
    http_status = 503
    retryable = True


class AccessDenied(Unavailable):
    """The store refused access: expired or wrong credentials, a missing permission, another user's folder.

    The request certainly did nothing. Repeating it at once is useless; once access is granted, it succeeds. So
    long-running services wait, as for any `Unavailable`; everybody else gets the error at once.
    """

    kind = ErrorKind.ACCESS_DENIED
    remedy = "grant access or renew the credentials, then retry: the store refused access; nothing was done"
    http_status = 502  # the store refused us; this is not our refusal of the client
    retryable = False


class SnapshotExpired(LithifyError):
    kind = ErrorKind.SNAPSHOT_EXPIRED
    remedy = "open a new snapshot, or pin the next one"
    exit_code = 8
    http_status = 410


class Corrupt(LithifyError):
    """`key`: that of the damaged object; "" if several disagree. `segment`: the id of the segment that was read there,
    if any."""

    kind = ErrorKind.CORRUPT
    remedy = "someone must investigate: an object is missing or damaged, or `verify` or `doctor` found a problem"
    exit_code = 9

    def __init__(self, message: str, key: str = "", segment: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.segment = segment


class OffsetOutOfRange(LithifyError):
    kind = ErrorKind.OFFSET_OUT_OF_RANGE
    remedy = "choose an offset inside the log"
    exit_code = 10
    http_status = 416


_CLASSES: dict[ErrorKind, type[LithifyError]] = {
    each.kind: each
    for each in (
        *(LithifyError, InvalidRequest, NotFound, AlreadyExists, Fenced, EpochRegression, CommitUnknown),
        *(Unavailable, AccessDenied, SnapshotExpired, Corrupt, OffsetOutOfRange),
    )
}


def error_classes() -> tuple[type[LithifyError], ...]:
    """All of them, the base class last."""
    return (*(each for each in _CLASSES.values() if each is not LithifyError), LithifyError)


def error_class(kind: ErrorKind) -> type[LithifyError]:
    """The class of the errors of a kind, with their exit code and HTTP status."""
    return _CLASSES[kind]
