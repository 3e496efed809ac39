"""A store in an S3 bucket, or in anything that speaks its API and honours `If-None-Match: *` on PUT."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from botocore.exceptions import FlexibleChecksumError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError

from lithify.store import driver
from lithify.store.credentials import write_credentials
from lithify.store.driver import monotonic_ms
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import Object, ObjectInfo, Outcome, Page, StoreSpec
from lithify.store.reply_clock import ReplyClock
from lithify.store.s3_clients import S3Clients
from lithify.store.s3_errors import FAILURES, error_code, explain, outcome_of_failure, status_code
from lithify.store.s3_options import S3Options
from lithify.store.s3_output import S3Output

__all__ = ["S3Store"]

T = TypeVar("T")
_DELETE_KEYS = 1000
_STALE_MS = 24 * 3600 * 1000
_GET_BUDGET_MS = 15_000
_RETRY_PAUSES_MS = (50, 200, 800)
_TRUNCATED = (ResponseStreamingError, IncompleteReadError, ReadTimeoutError, FlexibleChecksumError)
_NO_BATCH_DELETE = frozenset({400, 404, 405, 501})
_NOT_FOUND = 404
_RANGE_NOT_SATISFIABLE = 416


class S3Store:
    """Objects under `prefix` of `bucket`. `options` as s3fs spells them (see `S3Options`); `pause` waits some ms."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        options: dict[str, Any] | None = None,
        pause: Callable[[int], None] = driver.pause,
    ) -> None:
        self._bucket = bucket
        self._prefix = check_prefix(prefix.strip("/") + "/") if prefix.strip("/") else ""
        self._options = S3Options(options)
        self._pause = pause
        self._clock = ReplyClock()
        self._bucket_seen = False
        self._clients = S3Clients(self._options, self._observe)

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store cannot be pickled: send its spec() and open it there with open_spec")

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def spec(self, credentials_file: str | None = None) -> StoreSpec:
        """`credentials_file` as written by `write_credentials`; the spec itself never holds a secret."""
        return StoreSpec(self.url, self._options.public(), credentials_file)

    def write_credentials(self, path: str | os.PathLike[str]) -> bool:
        """Write explicit secrets to a private file for workers of this machine; False where none were given."""
        secrets = self._options.secrets()
        if secrets:
            write_credentials(secrets, path)
        return bool(secrets)

    def conditional_client(self) -> Any:
        """The boto3 client of this process for create-if-absent and small reads: one attempt per call."""
        return self._of_this_process().conditional()

    def bulk_client(self) -> Any:
        """The boto3 client of this process for everything else: it retries by itself."""
        return self._of_this_process().bulk()

    def create(self, key: str, body: bytes) -> Outcome:
        """Raises InvalidRequest only where this attempt certainly stored nothing."""
        target = self._target(key)
        client = self.conditional_client()
        try:
            client.put_object(**target, **self._additional("PutObject"), Body=body, IfNoneMatch="*")
        except FAILURES as error:
            outcome = outcome_of_failure(error, self._where(key))
            if isinstance(outcome, Outcome):
                return outcome
            raise outcome from error
        return Outcome.CREATED

    def get(self, key: str) -> Object | None:
        target = self._target(key)
        client = self.conditional_client()

        def attempt() -> Object:
            reply = client.get_object(**target, **self._additional("GetObject"))
            return Object(reply["Body"].read(), _modified_ms(reply))

        try:
            return self._retried(attempt, lambda error: isinstance(explain(error, ""), Unavailable))
        except FAILURES as error:
            if self._says_missing(error):
                return None
            raise explain(error, self._where(key)) from error

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        target = self._target(key)
        if length == 0:
            return b""
        client = self.bulk_client()
        span = f"bytes={start}-{start + length - 1}"

        def attempt() -> bytes:
            reply = client.get_object(**target, **self._additional("GetObject"), Range=span)
            body = reply["Body"].read()
            return body if "ContentRange" in reply else body[start : start + length]

        try:
            body = self._retried(attempt, lambda error: isinstance(error, _TRUNCATED))
        except FAILURES as error:
            if self._says_missing(error):
                raise NotFound(f"{self._where(key)} does not exist") from error
            if status_code(error) != _RANGE_NOT_SATISFIABLE:
                raise explain(error, self._where(key)) from error
            body = b""
        if len(body) != length:
            raise Corrupt(f"{self._where(key)} ends before byte {start + length}")
        return body

    def put(self, key: str, body: bytes) -> None:
        target = self._target(key)
        try:
            self.bulk_client().put_object(**target, **self._additional("PutObject"), Body=body)
        except FAILURES as error:
            raise explain(error, self._where(key)) from error

    def output(self, key: str) -> S3Output:
        return S3Output(self.bulk_client(), self._target(key), self._where(key), self._additional)

    def head(self, key: str) -> ObjectInfo | None:
        target = self._target(key)
        try:
            reply = self.bulk_client().head_object(**target, **self._additional("HeadObject"))
        except FAILURES as error:
            if self._says_missing(error):
                return None
            raise explain(error, self._where(key)) from error
        return ObjectInfo(key, reply["ContentLength"], _modified_ms(reply))

    def list(self, prefix: str, token: str | None = None) -> Page:
        """One page of up to 1,000 keys, in whatever order the store has (S3 Express: none)."""
        parameters = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix)}
        if token is not None:
            parameters["ContinuationToken"] = token
        try:
            reply = self.bulk_client().list_objects_v2(**parameters, **self._additional("ListObjectsV2"))
        except FAILURES as error:
            raise explain(error, self._where(prefix)) from error
        infos = tuple(
            ObjectInfo(found["Key"][len(self._prefix) :], found["Size"], _modified_ms(found))
            for found in reply.get("Contents", ())
            if not found["Key"].endswith("/")  # consoles make such "folders"; no key of ours ends so
        )
        return Page(infos, reply.get("NextContinuationToken"))

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted."""
        below = self._prefix + check_prefix(prefix)
        parameters = {"Bucket": self._bucket, "Prefix": below, "Delimiter": "/"}
        names: set[str] = set()
        while True:
            try:
                reply = self.bulk_client().list_objects_v2(**parameters, **self._additional("ListObjectsV2"))
            except FAILURES as error:
                raise explain(error, self._where(prefix)) from error
            names.update(found["Prefix"][len(below) :].rstrip("/") for found in reply.get("CommonPrefixes", ()))
            if not reply.get("NextContinuationToken"):
                return sorted(names - {""})
            parameters["ContinuationToken"] = reply["NextContinuationToken"]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        for first in range(0, len(keys), _DELETE_KEYS):
            batch = keys[first : first + _DELETE_KEYS]
            if len(batch) == 1 or not self._delete_batch(batch):
                for key in batch:
                    self._delete_one(key)

    def now(self) -> int:
        """The store's clock, from the Date of its replies; never ahead of it, and at most about a second behind."""
        known = self._clock.now()
        if known is None:
            failure: BaseException | None = None
            try:
                self.bulk_client().head_bucket(Bucket=self._bucket, **self._additional("HeadBucket"))
            except FAILURES as error:  # a refusal is dated too
                failure = error
            known = self._clock.now()
            if known is None and failure is not None:
                raise explain(failure, self.url) from failure
        if known is None:
            raise InvalidRequest(f"{self.url}: the store's replies carry no Date, so it has no clock; inject one")
        return known

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def close(self) -> None:
        if self._clients.pid == os.getpid():
            self._clients.close()

    def versioning(self) -> str | None:
        """'Enabled', 'Suspended' or 'Off' (GetBucketVersioning); None where the store does not tell."""
        try:
            reply = self.bulk_client().get_bucket_versioning(Bucket=self._bucket)
        except FAILURES:
            return None
        return str(reply.get("Status", "Off"))

    def remove_stale_temporaries(self, older_than_ms: int = _STALE_MS) -> int:
        """Abort uploads that killed processes left unfinished (they are billed), and say how many those were."""
        client = self.bulk_client()
        removed = 0
        try:
            pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=self._prefix)
            for found in (upload for page in pages for upload in page.get("Uploads", ())):
                if int(found["Initiated"].timestamp() * 1000) < self.now() - older_than_ms:
                    client.abort_multipart_upload(Bucket=self._bucket, Key=found["Key"], UploadId=found["UploadId"])
                    removed += 1
        except FAILURES as error:
            raise explain(error, self.url) from error
        return removed

    def _delete_batch(self, batch: Sequence[str]) -> bool:
        """Whether the store took the batch; some know only single deletions, or want another checksum."""
        objects = [{"Key": self._prefix + key} for key in batch]
        try:
            reply = self.bulk_client().delete_objects(
                Bucket=self._bucket, **self._additional("DeleteObjects"), Delete={"Objects": objects, "Quiet": True}
            )
        except FAILURES as error:
            if status_code(error) in _NO_BATCH_DELETE and error_code(error) != "NoSuchBucket":
                return False
            raise explain(error, self._where(batch[0])) from error
        failed = [error for error in reply.get("Errors", ()) if error.get("Code") != "NoSuchKey"]
        if failed:
            raise Unavailable(
                f"s3://{self._bucket}/{failed[0].get('Key')} and {len(failed) - 1} more could not be deleted "
                f"({failed[0].get('Code')}); if it persists, check the permission s3:DeleteObject"
            )
        return True

    def _delete_one(self, key: str) -> None:
        try:
            self.bulk_client().delete_object(**self._target(key), **self._additional("DeleteObject"))
        except FAILURES as error:
            if not self._says_missing(error):
                raise explain(error, self._where(key)) from error

    def _retried(self, attempt: Callable[[], T], passing: Callable[[BaseException], bool]) -> T:
        deadline_ms = monotonic_ms() + _GET_BUDGET_MS
        for pause_ms in _RETRY_PAUSES_MS:
            try:
                return attempt()
            except FAILURES as error:
                if not passing(error) or monotonic_ms() > deadline_ms:
                    raise
            self._pause(pause_ms)
        return attempt()

    def _says_missing(self, error: BaseException) -> bool:
        """Whether the object, and not the bucket, is missing: the reply to a HEAD does not tell which."""
        if status_code(error) != _NOT_FOUND or error_code(error) == "NoSuchBucket":
            return False
        if error_code(error) != "NoSuchKey" and not self._bucket_seen:
            try:
                self.bulk_client().head_bucket(Bucket=self._bucket, **self._additional("HeadBucket"))
            except FAILURES as missing:
                if status_code(missing) == _NOT_FOUND:
                    raise InvalidRequest(
                        f"{self.url}: the bucket does not exist; create it, or check the URL"
                    ) from None
        return True

    def _observe(self, http_response: Any, **_: Any) -> None:
        self._clock.observe(http_response.headers.get("date"))
        if http_response.status_code < 300:
            self._bucket_seen = True

    def _of_this_process(self) -> S3Clients:
        if self._clients.pid != os.getpid():  # forked: the parent's sockets are the parent's
            self._clients = S3Clients(self._options, self._observe)
        return self._clients

    def _additional(self, operation: str) -> dict[str, Any]:
        """The user's extra parameters that this operation takes."""
        if not self._options.additional:
            return {}
        taken = self.bulk_client().meta.service_model.operation_model(operation).input_shape.members
        return {name: value for name, value in self._options.additional.items() if name in taken}

    def _target(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + check_key(key)}

    def _where(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def _modified_ms(reply: dict[str, Any]) -> int:
    """In whole seconds, as HTTP has it: Ceph's listing alone tells milliseconds, and one object has one time."""
    return int(reply["LastModified"].timestamp()) * 1000
