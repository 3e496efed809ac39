"""A store in an S3 bucket, or in any store with S3's API that honours `If-None-Match: *` on PUT."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from lithify.store import driver
from lithify.store.credentials import write_credentials
from lithify.store.driver import monotonic_ms
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import (
    GLIMPSE_KEYS,
    NOT_PICKLED,
    UNKNOWN_PAGE,
    Object,
    ObjectInfo,
    Outcome,
    Page,
    Store,
    StoreSpec,
)
from lithify.store.reply_clock import REPLIES_SURE, ReplyClock
from lithify.store.s3_clients import S3Clients
from lithify.store.s3_copies import Copy, told_checksums
from lithify.store.s3_deletes import Deletes
from lithify.store.s3_errors import FAILURES, error_code, explain, outcome_of_failure
from lithify.store.s3_options import S3Options
from lithify.store.s3_output import S3Output
from lithify.store.s3_reads import Range, modified_ms, read_range, tag
from lithify.store.s3_repeats import Repeats
from lithify.store.s3_replies import NotFromS3, marked
from lithify.store.s3_uploads import abort_stale_uploads
from lithify.store.side_by_side import SideBySide

__all__ = ["S3Store"]

T = TypeVar("T")
_STALE_MS = 24 * 3600 * 1000
_ABSENT = "NoSuchKey"  # and nothing else: NoSuchBucket means a wrong URL, any other 404 is not S3's
_BEYOND_END = "InvalidRange"
_HASTY_MS = 3_000
_NO_GLIMPSE_MS = 60_000
_NEVER_THERE = ".lithify-clock/none"  # a key to read the time with


class S3Store(Store):
    """Objects under `prefix` of `bucket`. `options`: as for s3fs (see `S3Options`); `pause` waits some ms."""

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
        self._repeats = Repeats(pause)
        self._clients = S3Clients(self._options)
        self._pause = pause
        self._hasty: S3Store | None = None
        self._glimpses_from_ms: int | None = 0  # by the monotonic clock; None: never
        self._side_by_side = SideBySide()

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_PICKLED)

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def endpoint_url(self) -> str:
        """Where requests go, however that was decided: by an option, a variable, a profile, or the region."""
        return str(self.bulk_client().meta.endpoint_url)

    @property
    def far(self) -> bool:
        return True

    def spec(self, credentials_file: str | None = None) -> StoreSpec:
        """`credentials_file`: as written by `write_credentials`; the spec itself never holds a secret. It names the
        endpoint and the region that this process really uses, so that a worker's own variables change neither."""
        return StoreSpec(self.url, self._options.way(self.bulk_client()), credentials_file)

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        """Write explicit secrets to a private file for workers of this machine; returns False if there are none."""
        secrets = self._options.secrets()
        if secrets:
            write_credentials(secrets, target)
        return bool(secrets)

    def conditional_client(self) -> Any:
        """The boto3 client of this process for create-if-absent and small reads: one attempt per call."""
        return self._of_this_process().conditional()

    def bulk_client(self) -> Any:
        """The boto3 client of this process for everything else; it retries by itself."""
        return self._of_this_process().bulk()

    def hasty(self) -> "S3Store":
        """The same place, with total deadlines of a few seconds: detects an outage while somebody waits."""
        if self._hasty is None:
            self._hasty = S3Store(self._bucket, self._prefix, self._options.hasty(), self._pause)
            self._hasty._repeats = Repeats(self._pause, _HASTY_MS, bulk_repeats=False)
            self._hasty._glimpses_from_ms = None
        return self._hasty

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        """Raises (AccessDenied, InvalidRequest) only if this attempt certainly stored nothing."""
        target = self._target(key)
        client = self.conditional_client()
        try:
            reply = client.put_object(**target, **self._additional("PutObject"), Body=body, IfNoneMatch="*")
        except FAILURES as error:
            outcome = outcome_of_failure(error, self._where(key))
            if isinstance(outcome, Outcome):
                return outcome
            raise outcome from error
        return Outcome.CREATED if marked(reply) or self._holds(key, body) else Outcome.UNKNOWN

    def get(self, key: str) -> Object | None:
        target = self._target(key)
        client = self.conditional_client()

        def attempt() -> Object:
            reply = client.get_object(**target, **self._additional("GetObject"))
            if "ContentRange" in reply:
                reply["Body"].close()
                raise NotFromS3(reply, f"that is {reply['ContentRange'][:60]!r}, and not the whole")
            body = reply["Body"].read()
            return Object(body, modified_ms(reply), tag(reply, len(body)))

        try:
            return self._repeats.of_single(attempt)
        except FAILURES as error:
            if error_code(error) == _ABSENT:
                return None
            raise explain(error, self._where(key)) from error

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        target = self._target(key)
        if length == 0:
            return b""
        try:
            body = self._repeats.of_bulk(lambda: self._range(target, start, length)).body
        except FAILURES as error:
            if error_code(error) == _ABSENT:
                raise NotFound(f"{self._where(key)} does not exist", key) from error
            if error_code(error) != _BEYOND_END:
                raise explain(error, self._where(key)) from error
            body = b""
        if len(body) != length:
            raise Corrupt(f"{self._where(key)} ends before byte {start + length}", key)
        return body

    def put(self, key: str, body: bytes) -> None:
        target = self._target(key)

        def attempt() -> None:
            reply = self.bulk_client().put_object(**target, **self._additional("PutObject"), Body=body)
            if not marked(reply) and not self._holds(key, body):
                raise NotFromS3(reply, "that is not S3's own: the object is not there")

        self._ask(key, attempt)

    def output(self, key: str) -> S3Output:
        def size() -> int | None:
            found = self.head(key)
            return found.size if found is not None else None

        target, put = self._target(key), partial(self.put, key)
        return S3Output(self.bulk_client(), target, self._where(key), self._additional, self._repeats, size, put)

    def head(self, key: str) -> ObjectInfo | None:
        found = self._look(key)
        return found and ObjectInfo(key, found.size, found.modified_ms, found.tag)

    def stamp(self, key: str) -> Mapping[str, str] | None:
        """No client can choose either. The time is in whole seconds; the version's name is unique."""
        found = self._look(key)
        if found is None:
            return None
        return {"modified_ms": str(found.modified_ms)} | ({"version": found.version} if found.version else {})

    def _look(self, key: str) -> Range | None:
        """By a GET of the first byte: a reply to HEAD has no body, so a proxy's 404 would look like S3's own."""
        target = self._target(key)
        try:
            return self._repeats.of_bulk(lambda: self._range(target, 0, 1))
        except FAILURES as error:
            if error_code(error) == _ABSENT:
                return None
            if error_code(error) != _BEYOND_END:
                raise explain(error, self._where(key)) from error
            found = self.get(key)  # it may be empty
            return found and Range(b"", len(found.body), found.modified_ms or 0, tag=found.tag)

    def list(self, prefix: str, token: str | None = None) -> Page:
        """One page of up to 1,000 keys, in the store's order (S3 Express: none)."""
        parameters = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix)}
        if token is not None:
            parameters["ContinuationToken"] = token
        reply = self._ask(
            prefix, lambda: self.bulk_client().list_objects_v2(**parameters, **self._additional("ListObjectsV2"))
        )
        return self._page(reply)

    def _page(self, reply: Any) -> Page:
        infos = tuple(
            ObjectInfo(found["Key"][len(self._prefix) :], found["Size"], modified_ms(found))
            for found in reply.get("Contents", ())
            if not found["Key"].endswith("/")  # consoles make such "folders"; our keys never end with '/'
        )
        return Page(infos, reply.get("NextContinuationToken"))

    @property
    def glimpses(self) -> bool:
        """Not for a minute after one has failed, and not where an outage is to be detected soon."""
        return self._glimpses_from_ms is not None and monotonic_ms() >= self._glimpses_from_ms

    def glimpse(self, prefix: str) -> Page:
        """Asked for once: whatever it fails with, looking for the keys tells more."""
        parameters = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix), "MaxKeys": GLIMPSE_KEYS}
        client = self.conditional_client()
        try:
            return self._page(client.list_objects_v2(**parameters, **self._additional("ListObjectsV2")))
        except FAILURES:
            self._glimpses_from_ms = monotonic_ms() + _NO_GLIMPSE_MS
            return UNKNOWN_PAGE

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted."""
        below = self._prefix + check_prefix(prefix)
        parameters = {"Bucket": self._bucket, "Prefix": below, "Delimiter": "/"}
        names: set[str] = set()
        while True:
            reply = self._ask(
                prefix, lambda: self.bulk_client().list_objects_v2(**parameters, **self._additional("ListObjectsV2"))
            )
            names.update(found["Prefix"][len(below) :].rstrip("/") for found in reply.get("CommonPrefixes", ()))
            if not reply.get("NextContinuationToken"):
                return sorted(names - {""})
            parameters["ContinuationToken"] = reply["NextContinuationToken"]

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        for key in keys:
            check_key(key)
        place, absent = (self._bucket, self._prefix), lambda key: self.head(key) is None
        return Deletes(self.bulk_client(), place, self._additional, self._repeats, absent).delete(keys)

    def copies_from(self, source: "S3Store") -> bool:
        """Whether this store may be asked to copy from `source`: they have one endpoint, and one name to ask in."""
        return self._options.identity() == source._options.identity() and self.endpoint_url == source.endpoint_url

    def copy_from(self, source: "S3Store", source_key: str, key: str, size: int) -> int:
        """Have the store copy an object of `size` bytes; returns the number of requests. Requires: `copies_from`."""
        there, target = source._target(source_key), self._target(key)
        made = Copy(self.bulk_client(), there, target, self._additional, self._repeats)
        try:
            return made.copy(size)
        except FAILURES as error:
            if error_code(error) == _ABSENT:
                raise NotFound(f"{source._where(source_key)} does not exist", source_key) from error
            raise explain(error, f"{self._where(key)} (a copy of {source._where(source_key)})") from error

    def told_checksums(self, key: str) -> Mapping[str, str]:
        """What the store tells of the object's bytes, by the kind of checksum; empty if it tells nothing."""
        return told_checksums(self.bulk_client(), self._target(key))

    def now(self) -> int:
        """The store's clock, from the Date of its replies: never ahead of it, and at most two seconds behind."""
        failure: LithifyError | None = None
        for _ in range(REPLIES_SURE):  # the first reply's date may be wrong: believe it only if others confirm it
            if self._clock.sure:
                break
            try:
                self.get(_NEVER_THERE)
            except LithifyError as error:  # a refusal has a date too
                failure = error
                if not self._clock.current:
                    break  # but silence has none, and we have waited long enough
        if failure is not None and not self._clock.current:
            raise failure
        known = self._clock.now()
        if known is None:
            raise InvalidRequest(f"{self.url}: the store's replies carry no Date, so it has no clock; inject one")
        return known

    @property
    def knows_time(self) -> bool:
        return self._clock.sure

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self._side_by_side.run(calls)

    def close(self) -> None:
        self._side_by_side.close()
        if self._clients.pid == os.getpid():
            self._clients.close()
        if self._hasty is not None:
            self._hasty.close()

    def versioning(self) -> str | None:
        """'Enabled', 'Suspended' or 'Off' (GetBucketVersioning); None if the store does not say."""
        try:
            reply = self.bulk_client().get_bucket_versioning(Bucket=self._bucket)
        except FAILURES:
            return None
        return str(reply.get("Status", "Off"))

    def remove_stale_temporaries(
        self, ours: Callable[[str], bool], older_than_ms: int = _STALE_MS, *, dry_run: bool = False
    ) -> int:
        """Unfinished multipart uploads, which nobody sees but everybody is charged for."""
        try:
            before_ms = self.now() - older_than_ms
            place = self._bucket, self._prefix
            return abort_stale_uploads(self.bulk_client(), place, ours, before_ms, self._repeats, dry_run)
        except FAILURES as error:
            raise explain(error, self.url) from error

    def _holds(self, key: str, body: bytes) -> bool:
        """Whether this body is stored: proof of a write whose answer is no proof."""
        try:
            found = self.get(key)
        except LithifyError:
            return False
        return found is not None and found.body == body

    def _range(self, target: dict[str, str], start: int, length: int) -> Range:
        return read_range(self.bulk_client(), {**target, **self._additional("GetObject")}, start, length)

    def _ask(self, key: str, attempt: Callable[[], T]) -> T:
        """A repeatable request of the bulk client; its failure is explained."""
        try:
            return self._repeats.of_bulk(attempt)
        except FAILURES as error:
            raise explain(error, self._where(key)) from error

    @property
    def _clock(self) -> ReplyClock:
        return self._of_this_process().clock

    def _of_this_process(self) -> S3Clients:
        if self._clients.pid != os.getpid():  # forked: the sockets belong to the parent
            self._clients = S3Clients(self._options)
        return self._clients

    def _additional(self, operation: str) -> dict[str, Any]:
        """The user's additional parameters that this operation accepts."""
        if not self._options.additional:
            return {}
        taken = self.bulk_client().meta.service_model.operation_model(operation).input_shape.members
        return {name: value for name, value in self._options.additional.items() if name in taken}

    def _target(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + check_key(key)}

    def _where(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"
