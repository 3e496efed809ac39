"""Copies that S3 makes by itself, and what it tells of an object's bytes."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from lithify.store.s3_errors import FAILURES, error_code
from lithify.store.s3_repeats import Repeats

__all__ = ["COPY_BYTES_MAX", "Copy", "told_checksums"]

COPY_BYTES_MAX = 1 << 30  # in one request. S3 takes 5 GiB, but does not answer before the last byte is copied
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


class Copy:
    """`source` and `target`: Bucket and Key. `additional` returns the extra parameters for each kind of request."""

    def __init__(
        self,
        client: Any,
        source: Mapping[str, str],
        target: Mapping[str, str],
        additional: Callable[[str], Mapping[str, Any]],
        repeats: Repeats,
    ) -> None:
        self._client = client
        self._source = dict(source)
        self._target = dict(target)
        self._additional = additional
        self._repeats = repeats

    def copy(self, size: int) -> int:
        """Returns the number of requests. Raises one of FAILURES."""
        if size <= COPY_BYTES_MAX:
            self._ask("copy_object", CopySource=self._source)
            return 1
        upload = {"UploadId": self._ask("create_multipart_upload")["UploadId"]}
        try:
            parts = [self._part(upload, start, size) for start in range(0, size, COPY_BYTES_MAX)]
            self._complete(upload, parts)
        except BaseException:
            with suppress(*FAILURES):
                self._ask("abort_multipart_upload", **upload)
            raise
        return len(parts) + 2

    def _part(self, upload: Mapping[str, str], start: int, size: int) -> dict[str, Any]:
        number, last = start // COPY_BYTES_MAX + 1, min(start + COPY_BYTES_MAX, size) - 1
        reply = self._ask(
            "upload_part_copy",
            **upload,
            PartNumber=number,
            CopySource=self._source,
            CopySourceRange=f"bytes={start}-{last}",
        )
        return {"PartNumber": number, "ETag": reply["CopyPartResult"]["ETag"]}

    def _complete(self, upload: Mapping[str, str], parts: list[dict[str, Any]]) -> None:
        try:
            self._ask("complete_multipart_upload", **upload, MultipartUpload={"Parts": parts})
        except FAILURES as error:
            # A repeated request, after a lost reply, may find the upload already completed by the first one. Whoever
            # copies compares the size afterwards.
            if error_code(error) != "NoSuchUpload":
                raise

    def _ask(self, method: str, **parameters: Any) -> Any:
        operation = "".join(word.capitalize() for word in method.split("_"))
        ask = getattr(self._client, method)
        return self._repeats.of_bulk(lambda: ask(**self._target, **self._additional(operation), **parameters))


def told_checksums(client: Any, target: Mapping[str, str]) -> dict[str, str]:
    """Checksums of the whole object, by their kind: two objects of which one is equal have the same bytes. Empty if the
    store tells none, or does not answer.

    A checksum of the parts' checksums depends on where they were cut, so it does not count. An ETag counts if it looks
    like the MD5 of the bytes; with other encryption it is random, and equals no other.
    """
    try:
        reply = client.head_object(**target, ChecksumMode="ENABLED")
    except FAILURES:
        return {}
    told = {}
    if reply.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        named = {name: str(value) for name, value in reply.items() if name.startswith("Checksum")}
        told = {name: value for name, value in named.items() if name != "ChecksumType" and "-" not in value}
    etag = _MD5.fullmatch(str(reply.get("ETag", "")))
    return told if etag is None else {**told, "ETag": etag[1]}
