"""What can go wrong, ordered by what the caller must do next.

    LithifyError
    ├── InvalidRequest      fix the request
    ├── NotFound            name something that exists
    ├── AlreadyExists       pick another name, or use what is there
    ├── Fenced              stop: another compactor, producer or consumer took over
    │   └── EpochRegression stop, and look: the store went back in time
    ├── CommitUnknown       look before retrying: it may have happened
    ├── Unavailable         retry later
    │   └── AccessDenied    let whoever asks in: the store refused the credentials, or a permission is missing
    ├── SnapshotExpired     open a new snapshot, or pin the next one
    ├── Corrupt             a person must look
    └── OffsetOutOfRange    choose an offset inside the log

What is merely not known yet is none of them: waiting for a delivery raises Python's TimeoutError, and goes on.

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
    """The root. Each kind says what the command line and the HTTP API answer with, and whether the same request may
    simply be made again."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class InvalidRequest(LithifyError):
    exit_code = 2
    http_status = 400


class NotFound(LithifyError):
    """`key` is that of the object which is not there; "" where something else is missing, a topic or a checkpoint.
    `segment` is the id of the segment that was read there, if one was."""

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

    `token` can be given to `Partition.outcome` later, from any process, to learn which.
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
    """The store refused who asks: expired or wrong credentials, a missing permission, a folder of another user.

    What was asked for certainly did not happen. To ask again at once is in vain; once access is granted, the same
    request succeeds. So whoever goes on for ever waits, as for any `Unavailable`, and everybody else is told at once.
    """

    http_status = 502  # the store's answer to us, and not ours to the client
    retryable = False


class SnapshotExpired(LithifyError):
    exit_code = 8
    http_status = 410


class Corrupt(LithifyError):
    """`key` is that of the damaged object; "" where several disagree. `segment` is the id of the segment that was read
    there, if one was."""

    exit_code = 9

    def __init__(self, message: str, key: str = "", segment: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.segment = segment


class OffsetOutOfRange(LithifyError):
    exit_code = 10
    http_status = 416
