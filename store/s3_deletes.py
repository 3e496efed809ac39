"""Deletions, in batches if the store accepts them, and what could not be deleted."""

from collections.abc import Callable, Sequence
from typing import Any

from lithify.store.s3_errors import FAILURES, PASSING_CODES, error_code, explain, refuses_who_asks, status_code
from lithify.store.s3_repeats import Repeats
from lithify.store.s3_replies import NotFromS3, marked

__all__ = ["Deletes"]

_KEYS_MAX = 1000  # of one request
_NO_BATCH = frozenset({400, 404, 405, 501})
_FORBIDDEN = 403
_OF_THE_OBJECT = frozenset({"AccessDenied", "InvalidObjectState", "OperationAborted"})  # the object may be locked
_ABSENT = "NoSuchKey"


class Deletes:
    """Deletes objects under `prefix` of `bucket`. `additional` returns the extra parameters for each kind of request;
    `absent` checks whether a key is not there."""

    def __init__(
        self, client: Any, place: tuple[str, str], additional: Any, repeats: Repeats, absent: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._bucket, self._prefix = place
        self._additional = additional
        self._repeats = repeats
        self._absent = absent

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """The keys that could not be deleted, each with the reason."""
        refused: dict[str, str] = {}
        for first in range(0, len(keys), _KEYS_MAX):
            batch = keys[first : first + _KEYS_MAX]
            of_batch, rest = self._batch(batch) if len(batch) > 1 else ({}, batch)
            refused |= of_batch
            refused |= {key: why for key in rest if (why := self._one(key)) is not None}
        return refused

    def _batch(self, batch: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
        """What of the batch was refused, and what must be deleted singly: everything, if the store did not accept the
        batch (some know only single deletions, or want another checksum) or an error names no key of the batch;
        otherwise the keys that failed for the moment."""
        objects = [{"Key": self._prefix + key} for key in batch]
        parameters = {"Bucket": self._bucket, "Delete": {"Objects": objects, "Quiet": True}}
        try:
            reply = self._repeats.of_bulk(
                lambda: self._client.delete_objects(**parameters, **self._additional("DeleteObjects"))
            )
        except FAILURES as error:
            of_the_batch = error_code(error) != "NoSuchBucket" and not refuses_who_asks(error)
            if status_code(error) in _NO_BATCH and of_the_batch:
                return {}, batch
            # Ceph asks whether the bucket itself may be deleted from, so a policy by keys refuses every batch.
            if error_code(error) == "AccessDenied" and self._one(batch[0]) is None:
                return {}, batch[1:]
            raise explain(error, self._where(batch[0])) from error
        refused: dict[str, str] = {}
        again: list[str] = []
        known = {self._prefix + key: key for key in batch}
        for error in reply.get("Errors", ()):
            key, code = known.get(str(error.get("Key", ""))), str(error.get("Code", ""))
            if code == _ABSENT:
                continue
            if key is None:
                return {}, batch
            if code in PASSING_CODES:
                again.append(key)
            else:
                refused[key] = _why(code)
        return refused, again

    def _one(self, key: str) -> str | None:
        """Why it could not be deleted; None: it is gone."""
        try:
            self._repeats.of_bulk(lambda: self._attempt(key))
        except FAILURES as error:
            code = error_code(error)
            if code in _OF_THE_OBJECT and status_code(error) == _FORBIDDEN:  # anything else is about our access
                return _why(code)
            if code != _ABSENT:
                raise explain(error, self._where(key)) from error
        return None

    def _attempt(self, key: str) -> None:
        target = {"Bucket": self._bucket, "Key": self._prefix + key}
        reply = self._client.delete_object(**target, **self._additional("DeleteObject"))
        if not marked(reply) and not self._absent(key):
            raise NotFromS3(reply, "that is not S3's own: the object is still there")

    def _where(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def _why(code: str) -> str:
    return f"the store answers {code or _FORBIDDEN}: check the permission s3:DeleteObject, and locks on the object"
