"""What can go wrong, by what the caller must do next.

    LithifyError
    ├── InvalidRequest      fix the request
    ├── NotFound            name something that exists
    ├── AlreadyExists       pick another name, or use what is there
    ├── Fenced              stop: another compactor, producer or consumer took over
    │   └── EpochRegression stop, and look: the store went back in time
    ├── CommitUnknown       look before retrying: it may have happened
    ├── Unavailable         retry later
    │   └── AccessDenied    grant access: the store refused the credentials, or a permission is missing
    ├── SnapshotExpired     open a new snapshot, or pin the next one
    ├── Corrupt             a person must look
    └── OffsetOutOfRange    choose an offset inside the log

A result that is only not known yet raises none of these: waiting for a delivery raises Python's TimeoutError, and goes
on.

Every message names the topic, partition or object and what to do next; none holds a secret or a record's contents.
"""

from typing import ClassVar

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "CommitUnknown",
    "Corrupt",
    "EpochRegression",
    "Fenced",
    "InvalidRequest",
    "LithifyError",
    "NotFound",
    "OffsetOutOfRange",
    "SnapshotExpired",
    "Unavailable",
]


class LithifyError(Exception):
    """The base class. Each kind has the exit code of the command line, the HTTP status, and whether the same request
    may simply be repeated."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class InvalidRequest(LithifyError):
    exit_code = 2
    http_status = 400


class NotFound(LithifyError):
    """`key`: that of the missing object; "" if something else is missing, such as a topic or a checkpoint. `segment`:
    the id of the segment that was read there, if any."""

    exit_code = 3
    http_status = 404

    def __init__(self, message: str, key: str = "", segment: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.segment = segment


class AlreadyExists(LithifyError):
    exit_code = 4
    http_status = 409


class Fenced(LithifyError):
    exit_code = 5
    http_status = 409


class EpochRegression(Fenced):
    """The stored epoch is smaller than one this process has committed: the store lost acknowledged writes."""


class CommitUnknown(LithifyError):
    """The commit may or may not have happened; nothing was deleted.

    `token` can be given to `Partition.outcome` later, from any process, to find out.
    """

    exit_code = 6
    http_status = 504

    def __init__(self, message: str, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class Unavailable(LithifyError):
    exit_code = 7
    http_status = 503
    retryable = True


class AccessDenied(Unavailable):
    """The store refused access: expired or wrong credentials, a missing permission, another user's folder.

    The request certainly did nothing. Repeating it at once is useless; once access is granted, it succeeds. So
    long-running services wait, as for any `Unavailable`; everybody else gets the error at once.
    """

    http_status = 502  # the store refused us; this is not our refusal of the client
    retryable = False


class SnapshotExpired(LithifyError):
    exit_code = 8
    http_status = 410


class Corrupt(LithifyError):
    """`key`: that of the damaged object; "" if several disagree. `segment`: the id of the segment that was read there,
    if any."""

    exit_code = 9

    def __init__(self, message: str, key: str = "", segment: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.segment = segment


class OffsetOutOfRange(LithifyError):
    exit_code = 10
    http_status = 416
