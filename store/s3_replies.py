"""Is a reply S3's own? Proxies, load balancers and sign-in pages answer, too, and what they say is not about objects.

S3 answers every refusal with `<Error><Code>…`, and every success with what is listed below. Whatever lacks that proves
nothing, whatever its status: a 404 of theirs is no absence, a 200 no success. botocore's parser, given such a page,
finds a bare status, nothing at all, or raises anything (KeyError, RecursionError); it is never given one here.
"""

import re
from collections.abc import Mapping
from typing import Any

from botocore.parsers import ResponseParserFactory

__all__ = ["NotFromS3", "ReplyParsers"]

_HEADERS: Mapping[str, tuple[str, ...]] = {
    "GetObject": ("etag", "last-modified"),
    "PutObject": ("etag",),
    "UploadPart": ("etag",),
}
_ROOTS: Mapping[str, tuple[bytes, ...]] = {
    "CompleteMultipartUpload": (b"CompleteMultipartUploadResult",),
    "CreateMultipartUpload": (b"InitiateMultipartUploadResult",),
    "DeleteObjects": (b"DeleteResult",),
    "GetBucketVersioning": (b"VersioningConfiguration", b"GetBucketVersioningResponse"),  # S3's word, and moto's
    "ListMultipartUploads": (b"ListMultipartUploadsResult",),
    "ListObjectsV2": (b"ListBucketResult",),
}
_PROTOCOL = "rest-xml"  # of S3 alone, among those that a session talks to
_REPEATED = frozenset({500, 502, 503, 504})  # by botocore, for the status alone
_LISTED = frozenset({"Key", "Size", "LastModified"})
_EMPTY = frozenset({"AbortMultipartUpload", "DeleteObject"})
_FIRST_TAG = re.compile(rb"<([A-Za-z][\w.-]*)")
_KIND = re.compile(r"^[\w/+.-]{1,60}")
_LOOKED_AT_BYTES = 1024


class NotFromS3(Exception):
    """A reply that proves nothing of the request: not that it was done, nor that it was not."""

    def __init__(self, status: int, kind: str, what: str) -> None:
        super().__init__(f"an answer of status {status} ({kind or 'no content type'}) {what}")
        self.status = status


class ReplyParsers(ResponseParserFactory):
    """botocore's component `response_parser_factory`, with the question above asked first."""

    def create_parser(self, protocol_name: str) -> Any:
        """The session's other clients ask who gives out credentials: STS, SSO. Their refusals look different."""
        parser = super().create_parser(protocol_name)
        return _Parser(parser) if protocol_name == _PROTOCOL else parser


class _Parser:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """Raises NotFromS3, but not for a status that botocore repeats: then the status is all it is shown."""
        status, headers, body = response["status_code"], response["headers"], response["body"]
        operation = response.get("context", {}).get("operation_name", "")
        kind = "".join(_KIND.findall(str(headers.get("content-type", "")))[:1])
        own = _refusal(body) if status >= 300 else _success(operation, status, headers, body)
        if not own and status in _REPEATED:
            return self._inner.parse({**response, "body": b""}, shape)
        if not own:
            raise NotFromS3(status, kind, "that is not S3's own")
        try:
            parsed = self._inner.parse(response, shape)
            if any(_LISTED - entry.keys() for entry in parsed.get("Contents", ())):
                raise LookupError("an object is listed without its key, size or date")
            if parsed.get("IsTruncated") and not _goes_on(operation, parsed):
                raise LookupError("a listing goes on, and does not say where")
            if status >= 300 and parsed.get("Error", {}).get("Code") == str(status):
                # SUBTLE! A refusal cut off behind its code: botocore does not notice, and falls back on the status.
                raise EOFError("the refusal is cut off")
            return parsed
        except Exception as error:
            # Whatever it stumbles over, from a size that is no number to a date of the year 20000.
            raise NotFromS3(status, kind, f"that cannot be read ({type(error).__name__})") from error


def _refusal(body: Any) -> bool:
    return _first_tag(body) == b"Error" and len(re.findall(rb"<Code>[^<\s]+</Code>", body)) == 1


def _goes_on(operation: str, parsed: Mapping[str, Any]) -> bool:
    return operation != "ListObjectsV2" or bool(parsed.get("NextContinuationToken"))


def _success(operation: str, status: int, headers: Mapping[str, str], body: Any) -> bool:
    if operation in _ROOTS:
        return _first_tag(body) in _ROOTS[operation]
    if operation in _EMPTY:
        return status in (200, 204) and not body
    # Without either, a body ends where the connection does, wherever that is.
    ends = "content-length" in headers or "transfer-encoding" in headers
    return ends and all(headers.get(name) for name in _HEADERS.get(operation, ()))


def _first_tag(body: Any) -> bytes:
    found = _FIRST_TAG.search(body, 0, _LOOKED_AT_BYTES) if isinstance(body, bytes) else None
    return found.group(1) if found else b""
