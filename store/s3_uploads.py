"""Multipart uploads that killed processes left unfinished: invisible, but charged for."""

from collections.abc import Callable
from typing import Any

from lithify.store.s3_errors import FAILURES, error_code
from lithify.store.s3_repeats import Repeats

__all__ = ["abort_stale_uploads"]


def abort_stale_uploads(
    client: Any, place: tuple[str, str], ours: Callable[[str], bool], before_ms: int, repeats: Repeats, dry_run: bool
) -> int:
    """Abort the uploads under `place` (bucket, prefix) that began before `before_ms` and whose key, without the prefix,
    is `ours`; returns their number. Other applications' uploads under the same prefix may take days, and are left
    alone."""
    bucket, prefix = place
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    stale = [
        {"Bucket": bucket, "Key": found["Key"], "UploadId": found["UploadId"]}
        for page in pages
        for found in page.get("Uploads", ())
        if found["Key"].startswith(prefix)
        and int(found["Initiated"].timestamp() * 1000) < before_ms
        and ours(found["Key"].removeprefix(prefix))
    ]
    for upload in () if dry_run else stale:
        try:
            repeats.of_bulk(lambda upload=upload: client.abort_multipart_upload(**upload))
        except FAILURES as error:
            if error_code(error) != "NoSuchUpload":  # it has ended, or another process was faster
                raise
    return len(stale)
