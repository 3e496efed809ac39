"""Files that an earlier lithify wrote are read, and written back byte for byte; what is none of ours is refused."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import xxhash

from lithify.manifest import jobs, model, runs
from lithify.manifest.bounds import Bounds
from lithify.manifest.codec import check_belongs, decode, encode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import (
    FORMAT,
    FORMAT_LISTS,
    FORMAT_MAX,
    Boundary,
    Collected,
    Manifest,
    Numbered,
    TopicFile,
    WarehouseFile,
)
from lithify.manifest.run_lists import RunListFile
from lithify.store.errors import Corrupt, InvalidRequest
from tests.golden import make_files
from tests.lists import whole

FOLDER = Path(__file__).parent
KINDS: dict[str, type[Numbered]] = {
    "manifest": Manifest,
    "manifest-sizes": Manifest,
    "manifest-transactions": Manifest,
    "manifest-passed-over": Manifest,
    "manifest-unpinned": Manifest,
    "manifest-owners": Manifest,
    "manifest-uploads": Manifest,
    "manifest-bounds": Manifest,
    "manifest-rows": Manifest,
    "manifest-homes": Manifest,
    "manifest-moved": Manifest,
    "manifest-lists": Manifest,
    "manifest-boundary": Manifest,
    "compactor-boundary": CompactorState,
    "compactor": CompactorState,
    "compactor-ended": CompactorState,
    "compactor-sizes": CompactorState,
    "compactor-paced": CompactorState,
    "compactor-failed": CompactorState,
    "compactor-chosen": CompactorState,
    "compactor-relocation": CompactorState,
    "compactor-priced": CompactorState,
    "boundary": Boundary,
    "topic": TopicFile,
    "topic-bounds": TopicFile,
    "topic-growths": TopicFile,
    "warehouse": WarehouseFile,
}
NUMBERS = {
    "manifest": 12,
    "manifest-sizes": 17,
    "manifest-transactions": 15,
    "manifest-passed-over": 18,
    "manifest-unpinned": 19,
    "manifest-owners": 20,
    "manifest-uploads": 21,
    "manifest-bounds": 16,
    "manifest-rows": 19,
    "manifest-homes": 22,
    "manifest-moved": 23,
    "manifest-lists": 24,
    "manifest-boundary": 25,
    "compactor-boundary": 21,
    "compactor": 13,
    "compactor-ended": 14,
    "compactor-sizes": 15,
    "compactor-paced": 16,
    "compactor-failed": 17,
    "compactor-chosen": 18,
    "compactor-relocation": 19,
    "compactor-priced": 20,
    "boundary": 2,
    "topic": 3,
    "topic-bounds": 5,
    "topic-growths": 6,
    "warehouse": 4,
}
# Arrays say all they hold: what a bucket did not say of its records when a file was written is 0.
ADDED = {"manifest": ((b",80,900]", b",80,900,0]"), (b",3,1234]", b",3,1234,0]"))}
SEAL = re.compile(rb',"file_xxh3":"[0-9a-f]{16}"}\n\Z')
FILES = sorted(FOLDER.glob("v*/*.json"))
_KEYS = PartitionKeys(**make_files.PARTITION)
LIST_KEY = _KEYS.run_list(make_files.MANIFEST_LISTS.lists[0].id)
LISTS = {LIST_KEY: (FOLDER / f"v{FORMAT_LISTS}" / "run-list.runs").read_bytes()}


def format_of(name: str) -> int:
    return make_files.FORMATS.get(name, FORMAT)


def read(name: str) -> bytes:
    return (FOLDER / f"v{format_of(name)}" / f"{name}.json").read_bytes()


def read_whole(name: str, body: bytes) -> Any:
    """What a file says, a manifest with all its runs."""
    value = decode(KINDS[name], body, name, NUMBERS[name])
    return whole(value, LISTS) if isinstance(value, Manifest) else value


def test_every_kind_has_its_file_in_its_format() -> None:
    assert {(p.parent.name, p.stem) for p in FILES} == {(f"v{format_of(name)}", name) for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_it_is_written_back_byte_for_byte(name: str) -> None:
    """With the checksum of these bytes behind them, where the file is from before there were any."""
    body = read(name)
    if b',"file_xxh3":"' in body:
        assert encode(read_whole(name, body)) == body
        return
    again = body
    for old, new in ADDED.get(name, ()):
        assert again.count(old) == 1
        again = again.replace(old, new)
    written = encode(decode(KINDS[name], body, name, NUMBERS[name]))
    checksum = xxhash.xxh3_64_hexdigest(again[:-2])
    assert written == again[:-2] + f',"file_xxh3":"{checksum}"}}\n'.encode()
    assert encode(decode(KINDS[name], written, name, NUMBERS[name])) == written
    assert json.loads(written)["file_xxh3"] == checksum


@pytest.mark.parametrize("name", KINDS)
def test_it_holds_what_its_maker_says(name: str) -> None:
    """Its bytes may be older than what `make` would write today; what they say is the same."""
    made = read_whole(name, encode(make_files.FILES[name]))
    assert read_whole(name, read(name)) == made == make_files.FILES[name]


def test_a_run_list_holds_what_its_maker_says() -> None:
    """Its manifest has its checksum, so that it is read by the test above."""
    body = (FOLDER / f"v{FORMAT_LISTS}" / "run-list.runs").read_bytes()
    assert body == make_files.RUN_LIST_BODY == LISTS[LIST_KEY]
    assert msgspec.json.decode(body, type=RunListFile) == make_files.RUN_LIST
    assert list(json.loads(body))[:5] == ["kind", "format", "topic", "topic_id", "partition"]


def test_what_is_listed_is_not_in_the_manifest() -> None:
    stored = json.loads(read("manifest-lists"))
    assert [[ref["id"] for ref in run["segments"]] for run in stored["runs"]] == [
        [make_files.LISTED[2].id],
        [make_files.MANIFEST_LISTS.runs[1].segments[0].id],
    ]


def structs(value: Any) -> list[msgspec.Struct]:
    """`value` and every struct in it."""
    inside = value if isinstance(value, tuple) else ()
    if isinstance(value, msgspec.Struct):
        inside = tuple(getattr(value, field) for field in value.__struct_fields__)
    found = [struct for part in inside for struct in structs(part)]
    return [value, *found] if isinstance(value, msgspec.Struct) else found


def test_every_field_is_covered() -> None:
    """Of each struct that occurs in the files, every field has a value somewhere that is not its default."""
    set_somewhere: dict[type, set[str]] = {}
    for name, kind in KINDS.items():
        for struct in structs(decode(kind, read(name), name, NUMBERS[name])):
            named = set_somewhere.setdefault(type(struct), set())
            for field in msgspec.structs.fields(struct):
                if field.required or getattr(struct, field.name) != field.default:
                    named.add(field.name)
    missing = {kind.__name__: set(kind.__struct_fields__) - named for kind, named in set_somewhere.items()}
    assert {kind: fields for kind, fields in missing.items() if fields} == {}
    defined = [c for m in (model, runs, jobs) for c in vars(m).values() if isinstance(c, type)]
    stored = {c for c in defined if issubclass(c, msgspec.Struct)}
    assert stored - set_somewhere.keys() == {Numbered, Collected, Bounds}  # `KeyRange` is the stored form of bounds


def test_every_status_kind_and_origin_is_covered() -> None:
    state = decode(CompactorState, read("compactor"), "compactor", 13)
    known = state.jobs + state.history
    assert {job.status for job in known} == {"submitted", "in_progress", "completed", "failed", "cancelled"}
    assert {job.kind for job in known} == {"tier", "clean", None}
    assert {job.origin for job in known} == {"scheduler", "manual"}


@pytest.mark.parametrize("name", KINDS)
def test_an_operator_can_read_it(name: str) -> None:
    """One line of plain JSON with a final newline; the envelope comes first."""
    body = read(name)
    assert body.count(b"\n") == 1
    assert list(json.loads(body))[:5] == ["kind", "format", "id", "nonce", "committed_at_ms"]


@pytest.mark.parametrize("name", KINDS)
def test_a_newer_format_is_refused_with_the_remedy(name: str) -> None:
    was, newer_by = f'"format":{format_of(name)}'.encode(), f'"format":{FORMAT_MAX + 1}'.encode()
    newer = SEAL.sub(b"}\n", read(name)).replace(was, newer_by, 1)
    with pytest.raises(InvalidRequest, match=f"{name}.* has format {FORMAT_MAX + 1}.* upgrade lithify"):
        decode(KINDS[name], newer, name, NUMBERS[name])


def test_a_newer_format_is_refused_as_such_even_where_its_fields_mean_other_things() -> None:
    with pytest.raises(InvalidRequest, match="upgrade lithify"):
        decode(Manifest, b'{"kind":"manifest","format":99,"id":12,"l0":"moved elsewhere"}', "manifest", 12)


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_file_is_corrupt(name: str) -> None:
    body = read(name)
    for length in range(len(body) - 1):  # without its newline alone it is whole
        with pytest.raises(Corrupt, match=f"{name}.* is damaged"):
            decode(KINDS[name], body[:length], name, NUMBERS[name])


@pytest.mark.parametrize("name", KINDS)
def test_a_file_under_anothers_number_is_corrupt(name: str) -> None:
    with pytest.raises(Corrupt, match=f"contains number {NUMBERS[name]}"):
        decode(KINDS[name], read(name), name, NUMBERS[name] + 1)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_file_of_another_kind_is_not_taken_for_this_one(name: str, other: str) -> None:
    """A boundary has every field that a manifest needs: without its kind it would read as an empty partition."""
    if KINDS[name] is KINDS[other]:
        assert json.loads(read(name))["kind"] == KINDS[name].__struct_config__.tag
        return
    with pytest.raises(Corrupt, match="damaged"):
        decode(KINDS[other], read(name), other, NUMBERS[name])


def test_unknown_fields_of_the_same_format_are_ignored() -> None:
    body = read("topic").replace(b'"format":1', b'"format":1,"a_later_field":[1]', 1)
    assert decode(TopicFile, body, "topic", 3) == decode(TopicFile, read("topic"), "topic", 3)


def test_a_file_copied_from_another_partition_is_corrupt() -> None:
    manifest = decode(Manifest, read("manifest"), "manifest", NUMBERS["manifest"])
    under = f"{manifest.topic}/{manifest.topic_id}/{manifest.partition:05d}/manifest/"
    check_belongs(manifest, under + "00000000000000000012.manifest")
    with pytest.raises(Corrupt, match="belongs under"):
        check_belongs(manifest, under.replace("/00003/", "/00004/") + "00000000000000000012.manifest")
