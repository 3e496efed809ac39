"""An import of a folder of Parquet files: one write, appended in each partition as a whole, once (docs/rfcs/0029).

Files are read by Spark's workers or by this process. In each partition all rows of the folder are one transaction, so a
folder that is imported again appends nothing.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import xxhash
from pyspark_lithify.distribution import application_over, distributed_over
from pyspark_lithify.options import Common, WriteOptions
from pyspark_lithify.writing import Placing, Rows, Written, commit

from lithify.cli.records.bulk import file_system, open_parquet, open_source, parquet_tables
from lithify.cli.records.explained import explained
from lithify.cli.records.formats import is_parquet
from lithify.cli.records.identity import mark_of, name_end, place_of
from lithify.cli.records.import_entries import look_at
from lithify.cli.records.parts import Where, check_travels, in_parts, travelling, where_to_work
from lithify.log.topic import Topic
from lithify.log.upload import UploadTask
from lithify.manifest.model import SegmentRef
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.port import StoreSpec
from lithify.store.urls import shown

__all__ = ["PART_BYTES", "Folder", "FolderImport", "import_folder", "look_into"]

PART_BYTES = 128 << 20  # of files, for one worker's task
ROWS = 50_000  # at a time
_VERSION = 1

_Segments = dict[int, list[tuple[UploadTask, SegmentRef]]]


class Folder(NamedTuple):
    """The Parquet files of a folder, by name. `place` and `name` tell where it is and what is in it."""

    files: tuple[str, ...]  # URLs
    sizes: tuple[int, ...]
    place: str
    name: str


class FolderImport(NamedTuple):
    """`appended`: by partition; empty if all had been appended before."""

    source_id: str
    files: int
    appended: dict[int, int]


def look_into(url: str, options: Mapping[str, Any]) -> Folder:
    """Files of the folder and of those in it, except where a name begins with "_" or ".": what others write beside
    their data. Raises InvalidRequest if there is none."""
    with explained(shown(url)):
        system, path = file_system(url, options)
        found = system.find(path, detail=True)
    root = path.rstrip("/") + "/"
    files = {name.removeprefix(root): info for name, info in sorted(found.items())}
    kept = {name: info for name, info in files.items() if _is_data(name)}
    if not kept:
        raise InvalidRequest(
            f"{shown(url)} holds no Parquet files: their names end in .parquet, and begin with neither _ nor ."
        )
    path = place_of(system, path)
    place = f"folder {name_end(path)}-{xxhash.xxh32_hexdigest(path.encode())}"
    known = repr([(name, info.get("size"), mark_of(info)) for name, info in kept.items()]).encode()
    sizes = tuple(int(info.get("size") or 0) for info in kept.values())
    return Folder(tuple(url + name for name in kept), sizes, place, f"{place}-{xxhash.xxh3_64_hexdigest(known)}")


def _is_data(name: str) -> bool:
    return is_parquet(name) and not any(part[0] in "_." for part in name.split("/") if part)


def import_folder(
    topic: Topic, url: str, options: Mapping[str, Any], where: Where, common: Common, spec: StoreSpec, given: str | None
) -> FolderImport:
    """Append the rows of all files to the topic, in the order of their names, once. `given`: a person named the
    source. `common`, `spec`: how the warehouse is opened elsewhere. Raises InvalidRequest if the folder has changed
    since it was imported; otherwise as `df.write` does."""
    check_travels(spec)
    folder = look_into(url, options)
    source_id = folder.name if given is None else f"folder {given}"
    count = distributed_over(topic, (f"import {source_id}", _VERSION), topic.partitions_now())
    application = application_over(f"import {source_id}", count)
    known = _known(topic)
    if all(application in known.get(number, ()) for number in range(count)):
        return FolderImport(source_id, len(folder.files), {})
    if given is None:
        _check_unchanged(topic, folder, known, url)
    where = where_to_work(where, sum(folder.sizes))
    carried = travelling(url, options) if where.engine == "spark" else dict(options)
    placing = Placing(WriteOptions(replace(common, storage_options={})), (), spec, new_id(), count, topic.topic_id)
    parts = cut(folder.sizes)
    part = functools.partial(_written, placing, folder.files, parts, carried)
    replies = in_parts(part, len(parts), where)
    messages = [Written(count, msgspec.json.decode(reply, type=_Segments)) for reply in replies]
    commit(WriteOptions(common), messages, (f"import {source_id}", _VERSION))
    appended = {
        number: sum(ref.rows for message in messages for _, ref in message.segments.get(number, ()))
        for number in range(count)
        if application not in known.get(number, ())
    }
    return FolderImport(source_id, len(folder.files), {number: rows for number, rows in appended.items() if rows})


def _known(topic: Topic) -> dict[int, set[str]]:
    """The applications that each partition remembers. One that cannot be read is not left out in silence."""
    found: dict[int, set[str]] = {}
    for number, entries in look_at(topic, range(topic.partitions)).items():
        if isinstance(entries, LithifyError):
            raise entries
        found[number] = {entry.application for entry in entries}
    return found


def _check_unchanged(topic: Topic, folder: Folder, known: Mapping[int, set[str]], url: str) -> None:
    """SUBTLE! 1. A folder is imported. 2. A file is added to it. 3. The same command would append all other files
    again, since their names are no part of what the partitions remember. Test: tests/cli/test_folders.py"""
    shape = re.compile(rf"import {re.escape(folder.place)}-([0-9a-f]{{16}}) over [0-9]+")
    before = sorted({match[0] for names in known.values() for name in names if (match := shape.fullmatch(name))})
    others = [name for name in before if not name.startswith(f"import {folder.name} over ")]
    if others:
        raise InvalidRequest(
            f"{shown(url)} was imported into {topic.name} before, and its files have changed since. Put what is new "
            "into a folder of its own, or append all of it again with a new --source-id"
        )


def cut(sizes: Sequence[int]) -> list[range]:
    """Consecutive files for each task, of about PART_BYTES; a larger file is one task."""
    found: list[range] = []
    start = held = 0
    for number, size in enumerate(sizes):
        if number > start and held + size > PART_BYTES:
            found.append(range(start, number))
            start, held = number, 0
        held += size
    return [*found, range(start, len(sizes))]


def _written(
    placing: Placing, files: Sequence[str], parts: Sequence[range], options: dict[str, Any], number: int
) -> bytes:
    """Write the segments of one part. Twice it writes others, and one reply is taken (RFC 0019)."""
    rows = Rows(placing, number)
    for file in parts[number]:
        for table in _tables(placing, files[file], options):
            rows.add(table)
    return msgspec.json.encode(rows.written())


def _tables(placing: Placing, url: str, options: dict[str, Any]) -> Iterator[Any]:
    """Checked, and with all columns. A refusal names the file."""
    from pyspark_lithify.opening import topic_on_executor

    topic = topic_on_executor(placing.spec, placing.options.common.topic)
    with open_source(url, options) as source:
        for found in parquet_tables(open_parquet(source), source.name, ROWS, 0):
            try:
                yield topic.prepare(found.table, first=found.first)
            except InvalidRequest as error:
                raise InvalidRequest(f"{source.name}: {error}") from None
