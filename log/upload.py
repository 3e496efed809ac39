"""Uploads apart from their commit (P22, docs/rfcs/0019): what a driver gives its workers, what each of them writes, and
the commit of all that. Nothing here knows which engine the workers belong to.

    task = partition.begin_upload()                                # the driver
    ref = lithify.write_segment(store, task, records)              # each worker, as often as it likes
    partition.upload(task, [ref, ...])                             # the driver
"""

from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from lithify.log.append import OF_UPLOAD, delay, partition_of
from lithify.log.intake import Records, prepare
from lithify.manifest.config import TopicConfig
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import SegmentRef, Upload
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.segment.extent import Order
from lithify.segment.write import append_rows, encode_rows
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest
from lithify.store.port import NewId, Put, Store

__all__ = ["UploadTask", "append_uploaded", "begin_upload", "check_task", "put_segment", "write_segment"]


class UploadTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs to write segments of an upload, but for the store and its keys. It may be pickled, and
    holds no secret and no record. The topic's configuration is that of when the upload was begun."""

    topic: str
    topic_id: str
    partition: int
    upload_id: str
    begun_at: int  # manifest number
    expires_at_ms: int  # by the store's clock
    config: TopicConfig

    @staticmethod
    def of(keys: PartitionKeys, begun: Upload, config: TopicConfig) -> "UploadTask":
        return UploadTask(
            topic=keys.topic,
            topic_id=keys.topic_id,
            partition=keys.partition,
            upload_id=begun.id,
            begun_at=begun.begun_at,
            expires_at_ms=begun.expires_at_ms,
            config=config,
        )

    @property
    def name(self) -> str:
        """What the ids of its segments begin with."""
        return Upload(id=self.upload_id, begun_at=self.begun_at, expires_at_ms=self.expires_at_ms).name

    @property
    def keys(self) -> PartitionKeys:
        return PartitionKeys(self.topic, self.topic_id, self.partition)


def write_segment(store: Store, task: UploadTask, records: Records | pa.RecordBatchReader) -> SegmentRef | None:
    """Write records (as `Partition.append` takes them, or a reader of batches; at most 512 MiB) as one sorted segment
    of the upload. Returns the reference for `Partition.upload`, which may be pickled; None: there were no records.

    Nobody reads what was written before the upload is appended. Called twice, it writes two segments: give one of them
    to `upload`, and the sweep deletes the other. Raises InvalidRequest, Unavailable.
    """
    driver = Driver(store)
    reader: Any = records if isinstance(records, pa.RecordBatchReader) else None
    given: Records = records if reader is None else reader.read_all()
    # Three copies of up to 512 MiB follow each other, each let go before the next but one is made: where the caller
    # keeps none, a task of 256 MiB needs half a gigabyte less.
    del records, reader
    table = prepare(given, task.config, driver.now_ms(), f"{task.topic}/{task.partition}")
    del given
    if table.num_rows == 0:
        return None
    order: Order = "key" if task.config.compacted else "offset"
    rows = append_rows(table, order)
    del table
    body, ref = encode_rows(rows, order)
    return driver.run(put_segment(task.keys, task.name, body, ref))


async def put_segment(keys: PartitionKeys, upload: str, body: bytes, ref: SegmentRef) -> SegmentRef:
    """Upload `body` under the upload of this name; answers with `ref` and its id. Each attempt has a nonce of its own:
    if its answer is lost, what it may have left is not named by anybody."""
    segment_id = SegmentId.for_upload(upload, await NewId())
    await Put(keys.segment(segment_id), body)
    return replace(ref, id=segment_id)


async def begin_upload(files: PartitionFiles, upload_id: str | None, ttl_ms: int) -> Upload:
    """The upload with this id (None: a new one), begun now if none stands."""
    edit = BeginUpload(upload_id if upload_id is not None else await NewId(), ttl_ms)
    return (await files.manifest.commit(edit)).result


async def append_uploaded(
    files: PartitionFiles,
    upload: str,
    segments: tuple[SegmentRef, ...],
    config: TopicConfig,
    transaction: TransactionStamp | None = None,
) -> range:
    """Append the segments, which were uploaded under the upload of this name; answers with their offsets.

    Raises the edit's own refusal or Unavailable (this call appended nothing), or CommitUnknown with a token for
    `lithify.log.append.outcome`.
    """
    most, expiration_ms = config.l0_segments_max, config.transactional_id_expiration_ms
    edit = AppendUploaded(upload, segments, most, transaction, expiration_ms)
    await delay(files, most)
    try:
        return (await files.manifest.commit(edit)).result
    except CommitUnknown as error:
        raise CommitUnknown(str(error), f"{partition_of(files)}:{error.token}:{OF_UPLOAD}{upload}") from error


def check_task(task: object, files: PartitionFiles) -> None:
    """Raises InvalidRequest for another partition's task."""
    if not isinstance(task, UploadTask):
        raise InvalidRequest(f"{files.name}: give the UploadTask of begin_upload, not a {type(task).__name__}")
    if task.keys != files.keys:
        begun = f"{task.topic}/{task.partition}"
        if begun == files.name:
            begun = "a topic of this name that was deleted since: its uploads went with it"
        raise InvalidRequest(f"{files.name}: the upload was begun in {begun}; append it where it was begun")
