"""Is a reply S3's own? Proxies, load balancers and sign-in pages answer too, but not about objects.

S3 answers every refusal with `<Error><Code>…`, and every success as listed below. A reply without these proves nothing,
whatever its status: another server's 404 is not an absence, its 200 not a success. Given such a page, botocore's parser
finds a bare status, or nothing, or raises anything (KeyError, RecursionError); so it is never given one.

A reply to PUT or DELETE has no body to recognise it by, and anything in front of an application may add an ETag. S3,
Ceph and MinIO mark such replies with a request id. Not every server does, and some proxies remove it. A reply without a
mark (`marked`) is not refused, but believed only after asking for the object.
"""

import re
from collections.abc import Mapping
from typing import Any

from botocore.parsers import ResponseParserFactory

__all__ = ["NotFromS3", "ReplyParsers", "marked"]

_MARKS = frozenset({"x-amz-request-id", "x-amz-id-2"})  # not those of AWS' gateways, which can stand before anything
_CHECKSUM = "x-amz-checksum-"  # of what was sent: a server that returns it has read the request as S3 does
_ROOTS: Mapping[str, tuple[bytes, ...]] = {
    "CompleteMultipartUpload": (b"CompleteMultipartUploadResult",),
    "CopyObject": (b"CopyObjectResult",),
    "CreateMultipartUpload": (b"InitiateMultipartUploadResult",),
    "DeleteObjects": (b"DeleteResult",),
    "GetBucketVersioning": (b"VersioningConfiguration", b"GetBucketVersioningResponse"),  # as S3 and as moto name it
    "ListMultipartUploads": (b"ListMultipartUploadsResult",),
    "ListObjectsV2": (b"ListBucketResult",),
    "UploadPartCopy": (b"CopyPartResult",),
}
_PROTOCOL = "rest-xml"  # of S3 only, among the services that a session talks to
_REPEATED = frozenset({500, 502, 503, 504})  # by botocore, because of the status alone
_LISTED = frozenset({"Key", "Size", "LastModified"})
_EMPTY = frozenset({"AbortMultipartUpload", "DeleteObject"})
_STORED = frozenset({"PutObject", "UploadPart"})
_NO_CONTENT, _PARTIAL_CONTENT = 204, 206
_FIRST_TAG = re.compile(rb"<([A-Za-z][\w.-]*)")
_KIND = re.compile(r"^[\w/+.-]{1,60}")
_LOOKED_AT_BYTES = 1024


class NotFromS3(Exception):
    """A reply that proves nothing about the request: neither that it was done nor that it was not."""

    def __init__(self, reply: Mapping[str, Any], what: str) -> None:
        """`reply`: from botocore, parsed or not."""
        metadata = reply.get("ResponseMetadata", {})
        headers = metadata.get("HTTPHeaders") or reply.get("headers", {})
        self.status = int(metadata.get("HTTPStatusCode") or reply.get("status_code", 0))
        kind = "".join(_KIND.findall(str(headers.get("content-type", "")))[:1])
        super().__init__(f"an answer of status {self.status} ({kind or 'no content type'}) {what}")


def marked(reply: Mapping[str, Any]) -> bool:
    """Whether a parsed reply has a mark that only S3 sets."""
    return _marks(reply.get("ResponseMetadata", {}).get("HTTPHeaders", {}))


class ReplyParsers(ResponseParserFactory):
    """botocore's component `response_parser_factory`, with this check before the parser."""

    def create_parser(self, protocol_name: str) -> Any:
        """The session's other clients ask who gives out credentials: STS, SSO. Their refusals look different."""
        parser = super().create_parser(protocol_name)
        return _Parser(parser) if protocol_name == _PROTOCOL else parser


class _Parser:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """Raises NotFromS3, except for a status that botocore retries: then it gets to see only the status."""
        status, headers, body = response["status_code"], response["headers"], response["body"]
        operation = response.get("context", {}).get("operation_name", "")
        own = _refusal(body) if status >= 300 else _success(operation, status, headers, body)
        if not own and status in _REPEATED:
            return self._inner.parse({**response, "body": b""}, shape)
        if not own:
            if not isinstance(body, bytes):
                body.close()  # nobody reads it, and its connection would stay open
            raise NotFromS3(response, "that is not S3's own")
        try:
            parsed = self._inner.parse(response, shape)
            if any(_LISTED - entry.keys() for entry in parsed.get("Contents", ())):
                raise LookupError("an object is listed without its key, size or date")
            if parsed.get("IsTruncated") and not _goes_on(operation, parsed):
                raise LookupError("a truncated listing has no continuation token")
            if status >= 300 and parsed.get("Error", {}).get("Code") == str(status):
                # SUBTLE! A refusal that was cut off after its code: botocore does not notice, and uses the status
                # instead. Test: tests/store/test_s3_replies.py
                raise EOFError("the refusal is cut off")
            return parsed
        except Exception as error:
            # For any failure, from a size that is not a number to a date in the year 20000.
            raise NotFromS3(response, f"that cannot be read ({type(error).__name__})") from error


def _refusal(body: Any) -> bool:
    return _first_tag(body) == b"Error" and len(re.findall(rb"<Code>[^<\s]+</Code>", body)) == 1


def _goes_on(operation: str, parsed: Mapping[str, Any]) -> bool:
    return operation != "ListObjectsV2" or bool(parsed.get("NextContinuationToken"))


def _success(operation: str, status: int, headers: Mapping[str, str], body: Any) -> bool:
    if operation in _ROOTS:
        return _first_tag(body) in _ROOTS[operation]
    if operation in _EMPTY:
        return status in (200, _NO_CONTENT) and not body
    # Without either header, a body ends where the connection does, wherever that is.
    ends = "content-length" in headers or "transfer-encoding" in headers
    if operation in _STORED:
        etag = str(headers.get("etag", ""))
        return (ends or status == _NO_CONTENT) and not body and bool(etag) and not etag.startswith("W/")
    if operation == "GetObject":
        told = headers.get("etag") and headers.get("last-modified")
        page = str(headers.get("content-type", "")).startswith("text/html") and not _marks(headers)
        whole = status != _PARTIAL_CONTENT or "content-range" in headers
        return ends and bool(told) and whole and not page
    return ends


def _marks(headers: Mapping[str, str]) -> bool:
    names = {name.lower() for name in headers}
    return not _MARKS.isdisjoint(names) or any(name.startswith(_CHECKSUM) for name in names)


def _first_tag(body: Any) -> bytes:
    found = _FIRST_TAG.search(body, 0, _LOOKED_AT_BYTES) if isinstance(body, bytes) else None
    return found.group(1) if found else b""
