"""Streams one object to S3: parts are uploaded while it is written; it appears, whole, at `close`."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from lithify.store.errors import LithifyError
from lithify.store.port import OutputFile
from lithify.store.s3_errors import FAILURES, error_code, explain
from lithify.store.s3_repeats import Repeats

__all__ = ["S3Output"]

PART_BYTES = 8 << 20  # S3 accepts 10,000 parts: 80 GiB, far above any segment
_UPLOADS_MAX = 2  # with the part being filled and its copy: at most 32 MiB in memory


class S3Output(OutputFile):
    """One upload. `target`: Bucket and Key. `additional` returns the extra parameters for each kind of request; `size`
    returns the object's size, None if there is no object; `put` stores an object that fits one request."""

    def __init__(
        self,
        client: Any,
        target: dict[str, str],
        where: str,
        additional: Any,
        repeats: Repeats,
        size: Callable[[], int | None],
        put: Callable[[bytes], None],
    ) -> None:
        self._client = client
        self._target = target
        self._where = where
        self._additional = additional
        self._repeats = repeats
        self._size = size
        self._put = put
        self._buffer: bytes | bytearray = bytearray()
        self._begun: Future[str] | None = None  # the upload's id
        self._pool: ThreadPoolExecutor | None = None
        self._running: set[Future[None]] = set()
        self._parts: dict[int, str] = {}  # number -> ETag
        self._part_number = 0
        self._bytes = 0
        self.closed = False

    @property
    def requests(self) -> int:
        """The number of requests at the price of a PUT: one, or start, parts and completion."""
        return self._part_number + 2 if self._part_number else 1

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError(f"{self._where} is closed")
        with memoryview(data) as given, given.cast("B") as view:
            rest = view
            while len(self._buffer) + len(rest) > PART_BYTES:
                taken = PART_BYTES - len(self._buffer)
                self._buffer += rest[:taken]
                rest = rest[taken:]
                self._guarded(self._send_part)
            if not self._buffer and isinstance(data, bytes) and len(rest) == len(data) == PART_BYTES:
                self._buffer = data  # is a part, and needs no copy
            else:
                self._buffer += rest
            self._bytes += len(view)
            return len(view)

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        if self.closed:
            return
        if self._begun is None:
            self.closed = True
            self._put(bytes(self._buffer))
            return
        self._guarded(self._complete)
        self.closed = True

    def abort(self) -> None:
        """Discard the object. What cannot be removed now is an unfinished upload, for a sweep or `doctor`."""
        if self.closed:
            return
        self.closed = True
        self._buffer = bytearray()
        if self._pool is not None:
            # Wait: a part that arrives after the abort would stay, and be charged for, for ever.
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._begun is not None and not self._begun.cancelled():
            with suppress(LithifyError):
                self._call("abort_multipart_upload", UploadId=self._upload_id)

    def _send_part(self) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_UPLOADS_MAX, thread_name_prefix="lithify-upload")
            self._begun = self._pool.submit(self._begin)
        self._collect(_UPLOADS_MAX - 1)
        self._part_number += 1
        self._running.add(self._pool.submit(self._upload, self._part_number, bytes(self._buffer)))
        self._buffer = bytearray()

    def _begin(self) -> str:
        return str(self._call("create_multipart_upload")["UploadId"])

    @property
    def _upload_id(self) -> str:
        """Waits for it. A part cannot hold the thread that it waits for: threads begin what was submitted first."""
        assert self._begun is not None
        return self._begun.result()

    def _upload(self, number: int, body: bytes) -> None:
        reply = self._call("upload_part", UploadId=self._upload_id, PartNumber=number, Body=body)
        self._parts[number] = reply["ETag"]

    def _collect(self, running_max: int) -> None:
        """Wait until at most `running_max` uploads run; raise the error of a failed one."""
        while True:
            ended = {future for future in self._running if future.done()}
            self._running -= ended
            for future in ended:
                future.result()
            if len(self._running) <= running_max:
                return
            wait(self._running, return_when=FIRST_COMPLETED)

    def _complete(self) -> None:
        self._send_part()
        self._collect(0)
        if self._pool is not None:
            self._pool.shutdown()
        parts = [{"PartNumber": number, "ETag": self._parts[number]} for number in sorted(self._parts)]
        try:
            self._request("complete_multipart_upload", UploadId=self._upload_id, MultipartUpload={"Parts": parts})
        except FAILURES as error:
            # A repeated request, after a lost reply, may find the upload already completed by the first one.
            if error_code(error) != "NoSuchUpload" or self._size() != self._bytes:
                raise explain(error, self._where) from error

    def _guarded(self, step: Any) -> None:
        try:
            step()
        except BaseException:
            self.abort()
            raise

    def _call(self, method: str, **parameters: Any) -> Any:
        try:
            return self._request(method, **parameters)
        except FAILURES as error:
            raise explain(error, self._where) from error

    def _request(self, method: str, **parameters: Any) -> Any:
        operation = "".join(word.capitalize() for word in method.split("_"))
        ask = getattr(self._client, method)
        return self._repeats.of_bulk(lambda: ask(**self._target, **self._additional(operation), **parameters))
