"""The only place that knows paths. Keys are relative to the warehouse's root. Pure."""

import re
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from lithify.store.errors import InvalidRequest
from lithify.store.owners import owner_key

__all__ = [
    "TOPIC_NAME",
    "WAREHOUSE_CONFIG",
    "EndKeys",
    "PartitionKeys",
    "RunListId",
    "SegmentId",
    "TopicKeys",
    "check_topic_name",
    "is_run_list_key",
    "is_segment_key",
    "is_topic_name",
]

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NUMBER_DIGITS = 20
_NUMBER = re.compile(rf"[0-9]{{{_NUMBER_DIGITS}}}")
_AGE = re.compile(r"[0-9]{12,19}(?=-)")  # the manifest number at the beginning of segment and job ids
_OF_APPEND, _OF_UPLOAD = r"[0-9a-f]{16}", r"[0-9a-f]{16}-[0-9a-f]{16}"
_OF_OUTPUT = r"[0-9a-f]{8}-[0-9]{1,19}-[0-9]{1,19}-[0-9a-f]{8}"
_SEGMENT_ID = re.compile(rf"[0-9]{{12,19}}-({_OF_APPEND}|{_OF_UPLOAD}|{_OF_OUTPUT})")
_OUTPUT_ID = re.compile(r"([0-9]{12,19}-[0-9a-f]{8})-[0-9]{1,19}-[0-9]{1,19}-[0-9a-f]{8}")
_TOPIC_ID, _PARTITION = r"[0-9a-f]{16}", r"(?:[0-9]{5}|[1-9][0-9]{5,9})"
_RUN_LIST_KEY = re.compile(rf"([^/]+)/{_TOPIC_ID}/{_PARTITION}/manifest/([^/]+)\.runs")
_RUN_LIST_ID = re.compile(r"[0-9]{20}-[0-9a-f]{16}-[0-9]{1,4}")
_SEGMENT_KEY = re.compile(rf"([^/]+)/{_TOPIC_ID}/{_PARTITION}/segments/([^/]+)\.parquet")
_RESERVED = ".lithify-"  # prefix of folders at the root that belong to lithify: the probe's, the clock's


def is_topic_name(name: str) -> bool:
    return name not in (".", "..") and not name.startswith(_RESERVED) and TOPIC_NAME.fullmatch(name) is not None


def is_segment_key(key: str) -> bool:
    """Whether `key` can be a segment of some topic: others may write under the warehouse's root too."""
    found = _SEGMENT_KEY.fullmatch(key)
    return found is not None and is_topic_name(found.group(1)) and SegmentId.is_one(found.group(2))


def is_run_list_key(key: str) -> bool:
    """Whether `key` can be a run list of some topic."""
    found = _RUN_LIST_KEY.fullmatch(key)
    return found is not None and is_topic_name(found.group(1)) and _RUN_LIST_ID.fullmatch(found.group(2)) is not None


def check_topic_name(name: str) -> str:
    """Kafka's rule for topic names; such names are safe in paths. Raises InvalidRequest."""
    if not is_topic_name(name):
        raise InvalidRequest(
            f"topic name {name[:260]!r} is not allowed: use 1 to 249 of the characters A-Z a-z 0-9 . _ - "
            f"(and neither '.' nor '..', nor {_RESERVED!r} at the beginning)"
        )
    return name


class Chain(msgspec.Struct, frozen=True):
    """The keys of one numbered-file chain: `<prefix>%020d.<suffix>`."""

    prefix: str  # ends in '/'
    suffix: str

    def key(self, number: int) -> str:
        return f"{self.prefix}{number:0{_NUMBER_DIGITS}d}.{self.suffix}"

    def number(self, key: str) -> int | None:
        """The number in `key`, or None if it is not a file of this chain."""
        if not key.startswith(self.prefix) or not key.endswith("." + self.suffix):
            return None
        digits = key[len(self.prefix) : -len(self.suffix) - 1]
        return int(digits) if _NUMBER.fullmatch(digits) else None


WAREHOUSE_CONFIG = Chain("@warehouse/config/", "warehouse")  # no topic name begins with '@'


@dataclass(frozen=True, slots=True)
class EndKeys:
    """The marks for the end of topics, in a folder of their own, so that one listing reads those of all topics."""

    topic: str

    FOLDER: ClassVar[str] = "@ended"  # no topic name begins with '@'

    def over(self, number: int) -> str:
        """Every life of the topic up to version `number` is over and collected."""
        return f"{self.FOLDER}/{self.topic}/{number:0{_NUMBER_DIGITS}d}.over"

    def again(self, number: int) -> str:
        """A version may come after `number`."""
        return f"{self.FOLDER}/{self.topic}/{number:0{_NUMBER_DIGITS}d}.again"

    @staticmethod
    def parse(key: str) -> "tuple[str, int, str] | None":
        """(topic, number, "over" or "again"); None if it is none of these keys."""
        folder, _, rest = key.partition("/")
        topic, _, name = rest.partition("/")
        digits, _, what = name.partition(".")
        if folder != EndKeys.FOLDER or not digits.isdecimal() or what not in ("over", "again"):
            return None
        return topic, int(digits), what


class TopicKeys(msgspec.Struct, frozen=True):
    topic: str

    @property
    def config(self) -> Chain:
        return Chain(f"{self.topic}/config/", "topic")


class PartitionKeys(msgspec.Struct, frozen=True):
    topic: str
    topic_id: str  # new each time the topic is created: a deleted and a new topic share nothing (P21)
    partition: int

    @staticmethod
    def of_folder(topic: str, topic_id: str, folder: str) -> "PartitionKeys | None":
        """The partition of a folder, or None if its name is not one: others may write under a topic's name too."""
        if re.fullmatch(_TOPIC_ID, topic_id) is None or re.fullmatch(_PARTITION, folder) is None:
            return None
        return PartitionKeys(topic, topic_id, int(folder))

    @property
    def owner(self) -> str:
        return owner_key(self.topic, self.topic_id)

    @property
    def root(self) -> str:
        return f"{self.topic}/{self.topic_id}/{self.partition:05d}/"

    @property
    def manifest(self) -> Chain:
        return Chain(self.root + "manifest/", "manifest")

    @property
    def compactor(self) -> Chain:
        return Chain(self.root + "compactor/", "compactor")

    @property
    def boundary(self) -> Chain:
        return Chain(self.root + "boundary/", "boundary")

    @property
    def segments(self) -> str:
        return self.root + "segments/"

    def segment(self, segment_id: str) -> str:
        return f"{self.segments}{segment_id}.parquet"

    def segment_id(self, key: str) -> str | None:
        """The segment id in `key`, or None if it is not a segment of this partition: other applications may keep files
        under the same prefix, and a person may keep a copy beside a segment."""
        if not key.startswith(self.segments) or not key.endswith(".parquet"):
            return None
        name = key[len(self.segments) : -len(".parquet")]
        return name if SegmentId.is_one(name) else None

    def run_list(self, name: str) -> str:
        """Beside the manifests."""
        return f"{self.manifest.prefix}{name}.runs"

    def run_list_id(self, key: str) -> str | None:
        """The id in `key`, or None if it is not a run list of this partition."""
        prefix = self.manifest.prefix
        if not key.startswith(prefix) or not key.endswith(".runs"):
            return None
        name = key[len(prefix) : -len(".runs")]
        return name if _RUN_LIST_ID.fullmatch(name) else None

    def is_ours(self, key: str) -> bool:
        """Whether `key` is anything that lithify keeps in this partition."""
        return self.is_numbered(key) or self.segment_id(key) is not None or self.run_list_id(key) is not None

    def is_numbered(self, key: str) -> bool:
        """Whether `key` is a numbered file of this partition."""
        return any(chain.number(key) is not None for chain in (self.manifest, self.compactor, self.boundary))


class SegmentId:
    """Segment ids begin with the manifest number that their maker last read, so that ages are numbers (P7).

    An append's id is `<manifest number>-<nonce>`; a job's output's is `<job>-<attempt>-<range>-<nonce>`, where the
    job's own id begins with the number of the manifest it was planned from (P10). A segment of an upload is named
    `<upload>-<nonce>`, where the upload's name is the number of the manifest that has it first, and its id (P22).
    """

    @staticmethod
    def is_one(name: str) -> bool:
        """Whether `name` has the form that `for_append`, `for_output` or `for_upload` gives."""
        return _SEGMENT_ID.fullmatch(name) is not None

    @staticmethod
    def for_append(manifest_id: int, nonce: str) -> str:
        return f"{manifest_id:012d}-{nonce}"

    @staticmethod
    def for_output(job: str, attempt: int, range_index: int, nonce: str) -> str:
        return f"{job}-{attempt}-{range_index}-{nonce[:8]}"

    @staticmethod
    def for_upload(upload: str, nonce: str) -> str:
        return f"{upload}-{nonce}"

    @staticmethod
    def for_job(manifest_id: int, nonce: str) -> str:
        return f"{manifest_id:012d}-{nonce[:8]}"

    @staticmethod
    def job_nonce(job: str) -> str:
        """The digits at the end of a job's id."""
        return job.rpartition("-")[2]

    @staticmethod
    def manifest_id(name: str) -> int:
        """The manifest number that a segment id or job id begins with; -1 if it is not an id of ours."""
        found = _AGE.match(name)
        return int(found[0]) if found is not None else -1

    @staticmethod
    def of_job(segment_id: str, job: str) -> bool:
        """Whether `segment_id` is an output of `job`, recorded or not."""
        return segment_id.startswith(job + "-")

    @staticmethod
    def job(segment_id: str) -> str | None:
        """The job whose output it is; None: it was appended."""
        found = _OUTPUT_ID.fullmatch(segment_id)
        return None if found is None else found[1]

    @staticmethod
    def of_upload(segment_id: str, upload: str) -> bool:
        """Whether `segment_id` was uploaded under the upload of this name."""
        return segment_id.startswith(upload + "-")


class RunListId:
    """`<manifest number>-<nonce>-<index>`: the number and nonce of the manifest for which a run list was written, and
    which of its lists it is (docs/rfcs/0027)."""

    @staticmethod
    def of(number: int, nonce: str, index: int) -> str:
        return f"{number:0{_NUMBER_DIGITS}d}-{nonce}-{index}"

    @staticmethod
    def number(name: str) -> int:
        """Requires: it is such an id."""
        return int(name[:_NUMBER_DIGITS])
