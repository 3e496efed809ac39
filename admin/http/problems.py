"""Errors as problem documents (RFC 9457), made from the one table of errors; and errors made from such documents."""

import re

import msgspec

from lithify.store.apart import Fault
from lithify.store.errors import AccessDenied, ErrorKind, LithifyError, Unavailable, error_class

__all__ = ["MEDIA_TYPE", "Problem", "problem_of", "refusal"]

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error. `kind` is that of the Python errors, or what HTTP itself refuses: MethodNotAllowed, Unauthorized,
    Forbidden, TooLarge, TooMany."""

    type: str
    title: str
    status: int
    detail: str
    kind: str
    retryable: bool
    remedy: str = ""
    object: str = ""  # the key of what is missing, damaged or refused
    segment: str = ""
    token: str = ""  # of an append that may have happened
    notes: tuple[str, ...] = ()

    def error(self) -> LithifyError:
        """The error that Python code would have raised."""
        if self.status in (401, 403):
            return AccessDenied(f"the server refused the request ({self.status} {self.kind}): {self.detail}")
        if self.kind not in {kind.value for kind in ErrorKind}:
            return Unavailable(f"the server refused the request ({self.status} {self.kind}): {self.detail}")
        return Fault(
            kind=ErrorKind(self.kind),
            message=self.detail,
            key=self.object,
            retryable=self.retryable,
            segment=self.segment,
            token=self.token,
            notes=self.notes,
        ).error()


def problem_of(error: Exception) -> Problem:
    """Nothing of an unexpected error reaches the client but its type and place, which a report of the bug needs."""
    fault = Fault.of(error)
    known = error_class(fault.kind)
    return Problem(
        type=_type(fault.kind),
        title=_title(fault.kind),
        status=error.http_status if isinstance(error, LithifyError) else known.http_status,
        detail=fault.message,
        kind=fault.kind.value,
        retryable=fault.retryable,
        remedy=known.remedy,
        object=fault.key,
        segment=fault.segment,
        token=fault.token,
        notes=fault.notes,
    )


def refusal(status: int, kind: str, detail: str, *, retryable: bool = False) -> Problem:
    """What the server refuses by itself."""
    return Problem(type=_type(kind), title=_title(kind), status=status, detail=detail, kind=kind, retryable=retryable)


def _type(kind: str) -> str:
    return f"urn:lithify:error:{kind}"


def _title(kind: str) -> str:
    """OffsetOutOfRange: Offset out of range."""
    return " ".join(re.findall(r"[A-Z][a-z]*", kind)).capitalize()
