"""What a failure of S3, or of the way there, means: the caller's mistake, refused access, a passing problem, or an
unknown outcome.

`FAILURES` is everything that a request can raise, from the call itself or while its body is read. botocore wraps errors
before the headers, but only some of those after them: a body that ends early over TLS raises errors of urllib3,
http.client or ssl (test: tests/store/test_s3_failures.py, which walks each library's exceptions).
"""

import http.client
from urllib.parse import urlsplit

import urllib3.exceptions
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    FlexibleChecksumError,
    IncompleteReadError,
    LoginError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    ResponseStreamingError,
    SSOError,
)

from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable
from lithify.store.port import Outcome
from lithify.store.refused import NotAsked, Refused
from lithify.store.s3_replies import NotFromS3

__all__ = [
    "ARCHIVED",
    "FAILURES",
    "IN_BODY",
    "PASSING_CODES",
    "error_code",
    "explain",
    "outcome_of_failure",
    "refuses_who_asks",
    "status_code",
]

_OF_THE_WAY = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)
FAILURES = (ClientError, BotoCoreError, NotFromS3, *_OF_THE_WAY)
# Those that botocore does not retry by itself: bodies that broke off, and replies that are not S3's.
_BROKEN_OFF = (ResponseStreamingError, IncompleteReadError, ReadTimeoutError, FlexibleChecksumError)
IN_BODY = (*_BROKEN_OFF, NotFromS3, *_OF_THE_WAY)
# Raised by botocore before anything is sent.
_NO_ACCESS = (NoCredentialsError, PartialCredentialsError, SSOError, LoginError)
_OURS = (ProfileNotFound, NoRegionError, ParamValidationError)
_IDENTITY = "check the credentials (storage options key/secret/token or profile, AWS_* variables, instance role)"
_EXPIRED = "the session token has expired: renew it"
_CLOCK = "set this machine's clock"
_REGION = "the bucket is in another region: set client_kwargs={'region_name': …} or AWS_DEFAULT_REGION"
_ADVICE = {
    "AuthorizationHeaderMalformed": _REGION,
    "EntityTooLarge": "the object is larger than the store takes",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "InvalidAccessKeyId": _IDENTITY,
    "InvalidBucketName": "check the URL",
    "InvalidToken": _IDENTITY,
    "NoSuchBucket": "create the bucket, or check the URL and the endpoint",
    "PermanentRedirect": _REGION,
    "QuotaExceeded": "the quota of the bucket or of its owner is used up: raise it, or free space",
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "SignatureDoesNotMatch": _IDENTITY,
}
# Refused access with a status other than 401 and 403.
_ACCESS_CODES = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidIdentityToken"),
        *("MissingSecurityHeader", "RequestExpired"),
    }
)
_ACCESS_STATUS = frozenset({401, 403})
_PERMISSIONS = {
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetObject": "s3:GetObject and s3:ListBucket (without ListBucket, S3 answers 403 if an object does not exist)",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
}
_RETRY_CODES = frozenset(
    {
        *("RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded"),
        "InvalidPart",  # the acknowledgement did not come from S3
        *("BadDigest", "IncompleteBody"),  # the request was damaged, or cut short, on its way
        *("XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"),
    }
)
PASSING_CODES = _RETRY_CODES | {"InternalError", "ServiceUnavailable"}  # for one key of a batch
ARCHIVED = "InvalidObjectState"  # by a lifecycle rule, and only hours after a restore is it there again
_RETRY_STATUS = frozenset({408, 409, 425, 429})
_NOT_IMPLEMENTED = 501
_BAD_REQUEST = 400
_PRECONDITION_FAILED = 412
_HEADER_REFUSED = frozenset({"InvalidArgument", "InvalidRequest", "NotImplemented", "UnsupportedOperation"})


def status_code(error: BaseException) -> int:
    """The HTTP status of a reply; 0 if there was none."""
    if isinstance(error, NotFromS3):
        return error.status
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) if isinstance(error, ClientError) else 0


def error_code(error: BaseException) -> str:
    """S3's own error code ('NoSuchKey'); for a 5xx from others the status; '' if there was no reply."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def explain(error: BaseException, where: str) -> InvalidRequest | Unavailable:
    """The error to raise for a failed request for the object or prefix `where`."""
    if isinstance(error, _NO_ACCESS):
        return NotAsked(f"{where}: {error}; {_IDENTITY}")
    if isinstance(error, _OURS):
        return InvalidRequest(f"{where}: {error}; {_IDENTITY}")
    if isinstance(error, NotFromS3):
        return Unavailable(
            f"{where}: {error}: there may be a proxy or load balancer in between, or the endpoint may not be S3. "
            "Nothing is lost; try again later"
        )
    if not isinstance(error, ClientError):
        if _is_refused(error):
            return Refused(
                f"{where}: could not connect to {_asked(error)}: connection refused; nothing is lost, try again"
            )
        return Unavailable(f"{where}: {error}; nothing is lost, try again")
    code, status = error_code(error), status_code(error)
    if code == ARCHIVED:
        return Unavailable(
            f"{where}: the store answers {status} {code}: the object is in an archive. Restore it (for S3 with "
            "`aws s3api restore-object`), and remove the lifecycle rule that moved it there; nothing is lost"
        )
    answer = f"{where}: the store answers {status}" + (f" {code}" if code != str(status) else "")
    if _may_pass(code, status):
        return Unavailable(f"{answer}; nothing is lost, try again later")
    if refuses_who_asks(error):
        return AccessDenied(f"{answer}: {_ADVICE.get(code) or _grant(error.operation_name)}")
    return InvalidRequest(f"{answer}: {_ADVICE.get(code, 'it refuses the request')}")


def _asked(error: BaseException) -> str:
    """Scheme, host and port of the endpoint, without what may be secret before an '@'."""
    url = urlsplit(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else "the store"


def _is_refused(error: BaseException) -> bool:
    """Whether nobody listened there: not a slow network, nor want of descriptors here, which the same class tells."""
    below: BaseException | None = error if isinstance(error, EndpointConnectionError) else None
    while below is not None and not isinstance(below, ConnectionRefusedError):
        below = below.__cause__ or below.__context__
    return below is not None


def refuses_who_asks(error: BaseException) -> bool:
    """Whether S3 itself refused access. A proxy's refusal proves nothing."""
    if not isinstance(error, ClientError):
        return False
    code, status = error_code(error), status_code(error)
    return code in _ACCESS_CODES or (status in _ACCESS_STATUS and code not in _RETRY_CODES)


def _grant(operation: str) -> str:
    if operation.startswith("AssumeRole"):
        return _IDENTITY  # STS refused it, before S3 was asked
    permission = _PERMISSIONS.get(operation, "s3:PutObject")
    return f"grant this identity {permission} on the bucket and prefix"


def outcome_of_failure(error: BaseException, where: str) -> Outcome | InvalidRequest | AccessDenied:
    """What one conditional PUT is known to have done; an error if the store certainly did nothing.

    SUBTLE! 409 ConditionalRequestConflict proves nothing: a conflicting operation raced, and either may win. A 5xx
    reply, no reply, or a reply that is not S3's may follow a write that happened. Test: tests/store/test_s3.py
    """
    if isinstance(error, NotFromS3):
        return Outcome.UNKNOWN
    code, status = error_code(error), status_code(error)
    if status == _PRECONDITION_FAILED:
        return Outcome.EXISTS
    if status == _NOT_IMPLEMENTED or (status == _BAD_REQUEST and code in _HEADER_REFUSED):
        return InvalidRequest(
            f"{where}: the store answers {status} {code} to a conditional PUT (If-None-Match): this store has no "
            "conditional put, which every commit needs; use another store, and check it with `lithify doctor`"
        )
    failure = explain(error, where)
    return failure if isinstance(failure, InvalidRequest | AccessDenied) else Outcome.UNKNOWN


def _may_pass(code: str, status: int) -> bool:
    passing_status = status in _RETRY_STATUS or (status >= 500 and status != _NOT_IMPLEMENTED)
    return passing_status or code in _RETRY_CODES
