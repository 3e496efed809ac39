"""A range of an object, and what its reply proves: its bytes, the object's size, and its modification time."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lithify.store.s3_replies import NotFromS3, marked
from lithify.store.tags import tag_of

__all__ = ["Range", "modified_ms", "read_range", "tag", "version"]

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


class Range(NamedTuple):
    body: bytes  # as requested, or shorter if the object ends
    size: int  # bytes of the whole object
    modified_ms: int
    version: str = ""  # the store's name for this version of the object; "": it keeps none
    tag: str = ""  # of the whole object


def read_range(client: Any, parameters: Mapping[str, Any], start: int, length: int) -> Range:
    """Make one request. Raises NotFromS3 if fewer bytes came, and the reply does not say that the object ends there.

    Only S3 itself can make an object Corrupt, which calls for a person: a body that a proxy cut, together with its
    length, is requested again.
    """
    asked = f"bytes={start}-{start + length - 1}"
    reply = client.get_object(**parameters, Range=asked)
    body = reply["Body"].read()
    told = reply.get("ContentRange")
    # An empty object may be asked for its first byte, to see whether it exists.
    short = len(body) < length if told is not None else len(body) < start + length
    if short and (body or length > 1) and not marked(reply):
        raise NotFromS3(reply, f"that has {len(body)} bytes, fewer than asked for by {asked!r}")
    if told is None:  # the server ignored the range
        return Range(body[start : start + length], len(body), modified_ms(reply), version(reply), tag(reply, len(body)))
    size = _size(told, start, len(body), length)
    if size is None:
        raise NotFromS3(reply, f"that has {len(body)} bytes labelled {told[:60]!r}, not {asked!r}")
    return Range(body, size, modified_ms(reply), version(reply), tag(reply, size))


def modified_ms(reply: Mapping[str, Any]) -> int:
    """In whole seconds, as in HTTP: only Ceph's listings have milliseconds, and an object must have one time."""
    return int(reply["LastModified"].timestamp()) * 1000


def tag(reply: Mapping[str, Any], size: int) -> str:
    return tag_of(str(reply.get("ETag", "")), size, modified_ms(reply))


def version(reply: Mapping[str, Any]) -> str:
    """Objects from before a bucket had versions are called "null" since it has some."""
    found = str(reply.get("VersionId", ""))
    return "" if found == "null" else found


def _size(told: str, start: int, received: int, asked: int) -> int | None:
    """The object's size, from a Content-Range that agrees with what was requested and received; else None."""
    found = _CONTENT_RANGE.fullmatch(told)
    if found is None:
        return None
    first, last, size = map(int, found.groups())
    agrees = first == start and last - first + 1 == received and last == min(start + asked, size) - 1
    return size if agrees else None
