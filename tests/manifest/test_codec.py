"""Whatever the bytes of a numbered file are, they are read as what was written, or refused by name.

Every bit of every kind is flipped once; every file is cut at every byte, nested, mistyped and swapped. What is refused
is Corrupt, but for a newer format: nothing else leaves the door.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lithify.manifest.codec import check_belongs, decode, encode
from lithify.manifest.config import parse
from lithify.manifest.model import Numbered
from lithify.manifest.warehouse_settings import parse_settings
from lithify.store.errors import Corrupt, InvalidRequest
from tests.golden.test_golden import KINDS, NUMBERS, read

DEEP = 100_000
OF_OLD_CASES = 400  # of each kind


def whole(name: str) -> Numbered:
    return decode(KINDS[name], read(name), name, NUMBERS[name])


def refusal(name: str, body: bytes) -> Corrupt | InvalidRequest | None:
    """How `body` is refused; None where it is read. Anything else that is raised fails the test."""
    try:
        decode(KINDS[name], body, f"some/{name}", NUMBERS[name])
    except (Corrupt, InvalidRequest) as error:
        return error if f"some/{name}" in str(error) else pytest.fail(f"it names no object: {error}")
    return None


@pytest.mark.parametrize("name", KINDS)
def test_every_bit_that_is_flipped_is_noticed_or_changes_nothing(name: str) -> None:
    """Without the checksum every fourth of them reads as something else: other offsets, other segments, or none."""
    value = whole(name)
    body = encode(value)
    seen: Counter[str] = Counter()
    for place in range(len(body)):
        for bit in range(8):
            flipped = bytearray(body)
            flipped[place] ^= 1 << bit
            error = refusal(name, bytes(flipped))
            assert isinstance(error, Corrupt | None), (place, bit)
            if error is None:  # the checksum itself is no checksum any more: then it is a file of old
                assert decode(KINDS[name], bytes(flipped), name, NUMBERS[name]) == value, (place, bit)
            seen["read" if error is None else "refused"] += 1
    assert seen["read"] < 8 * len(b',"file_xxh3":"0123456789abcdef"}\n')
    assert seen["read"] + seen["refused"] == 8 * len(body)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_is_cut_anywhere_is_corrupt(name: str) -> None:
    body = encode(whole(name))
    assert all(isinstance(refusal(name, body[:length]), Corrupt) for length in range(len(body) - 1))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b"0",
        b'"manifest"',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"\0" * 4_096,
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b"9" * 10_000,
    ],
    ids=lambda body: repr(body[:8]),
)
def test_what_is_no_file_at_all(name: str, body: bytes) -> None:
    assert isinstance(refusal(name, body), Corrupt)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "field",
    [
        b'"later":' + b"[" * DEEP,
        b'"later":' + b"[" * DEEP + b"]" * DEEP,
        b'"later":' + b'{"a":' * DEEP + b"0" + b"}" * DEEP,
        b'"nonce":"\xff\xfe"',
        b'"committed_at_ms":1e999',
        b'"committed_at_ms":' + b"9" * 10_000,
        b'"committed_at_ms":NaN',
        b'"id":-1',
        b'"format":"1"',
    ],
    ids=lambda field: repr(field[:24]),
)
def test_a_field_that_no_lithify_wrote(name: str, field: bytes) -> None:
    body = read(name)
    assert isinstance(refusal(name, body[:-2] + b"," + field + b"}\n"), Corrupt)


BROKEN: dict[str, dict[str, Any]] = {
    "manifest": {
        "max below min": lambda m: m["l0"][0].update(max_offset=-1),
        "a negative count": lambda m: m["l0"][0].update(rows=-4),
        "a negative size": lambda m: m["l0"][0].update(bytes=-1),
        "offsets out of order": lambda m: m["l0"].reverse() if len(m["l0"]) > 1 else m.update(next_offset=0),
        "a segment twice": lambda m: m["l0"].append(m["l0"][0]),
        "keys out of order": lambda m: m["l0"][0].update(min_key="eg==", max_key="YQ=="),
        "no L0 segment": lambda m: m.pop("l0"),
        "no run": lambda m: m.pop("runs"),
        "a log that starts behind its end": lambda m: m.update(log_start_offset=m["next_offset"] + 1),
        "cleaned beyond the end": lambda m: m.update(cleaned_to=m["next_offset"] + 1),
        "an orphan floor above itself": lambda m: m.update(orphan_floor=m["id"] + 1),
        "retired before it was added": lambda m: m["retired"][0].update(retired_at=0),
        "a pin of the future": lambda m: m["checkpoints"][0].update(manifest=m["id"] + 1),
    },
    "compactor": {
        "an ended job among the active": lambda c: c["jobs"][0].update(status="completed"),
        "a status of nobody": lambda c: c["jobs"][0].update(status="sleeping"),
        "an active job in the history": lambda c: c["history"][0].update(status="in_progress"),
    },
    "boundary": {
        "at the head": lambda b: b.update(manifest=b["manifest_head"]),
        "below zero": lambda b: b.update(compactor=-1),
    },
    "topic": {
        "no partition": lambda t: t.update(partitions=0),
        "more partitions than memory": lambda t: t.update(partitions=10**15),
        "an id that leads elsewhere": lambda t: t.update(topic_id="../other"),
        "no id": lambda t: t.update(topic_id=""),
    },
    "warehouse": {"settings that are no texts": lambda w: w.update(config={"num.partitions": 3})},
}


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, hows in BROKEN.items() for how in hows])
def test_a_file_without_a_checksum_must_keep_the_invariants(name: str, how: str) -> None:
    """Written before there were checksums, or mended by hand."""
    plain = json.loads(read(name))
    BROKEN[name][how](plain)
    assert isinstance(refusal(name, json.dumps(plain).encode()), Corrupt)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_mended_by_hand_is_read_once_its_checksum_is_gone(name: str) -> None:
    """As docs/operations.md says."""
    plain = json.loads(encode(whole(name)))
    plain["committed_at_ms"] += 1
    sealed = json.dumps(plain, separators=(",", ":")).encode() + b"\n"
    assert "checksum" in str(refusal(name, sealed))
    del plain["file_xxh3"]
    assert refusal(name, json.dumps(plain, indent=1).encode()) is None


def wrong(value: Any, dice: random.Random) -> Any:
    """One value somewhere in it, changed into what no edit makes."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        name = dice.choice([*value])
        return {**value, name: wrong(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.9:
        place = dice.randrange(len(value))
        return [*value[:place], wrong(value[place], dice), *value[place + 1 :]]
    odd: list[Any] = [
        None,
        True,
        -1,
        0,
        2**63,
        2**200,
        1.5,
        "",
        "\x00",
        "x" * 10_000,
        [],
        {},
        [[]],
        [value],
        {"a": value},
    ]
    return dice.choice(odd)


def odd_bodies(name: str) -> Iterator[bytes]:
    plain, body, dice = json.loads(read(name)), read(name), random.Random(name)
    for case in range(OF_OLD_CASES):
        if case % 2:
            yield json.dumps(wrong(plain, dice)).encode()
            continue
        odd = bytearray(body)
        for _ in range(dice.choice((1, 2, 8, 64))):
            odd[dice.randrange(len(odd))] = dice.randrange(256)
        yield bytes(odd)


@pytest.mark.parametrize("name", KINDS)
def test_an_old_file_that_is_damaged_is_refused_or_read_and_nothing_else(name: str) -> None:
    """What it was cannot be known without a checksum; but whoever reads it meets no other error, here or later."""
    seen: Counter[str] = Counter()
    for body in odd_bodies(name):
        error = refusal(name, body)
        seen[type(error).__name__] += 1
        if error is not None:
            continue
        value = decode(KINDS[name], body, name, NUMBERS[name])
        assert decode(KINDS[name], encode(value), name, NUMBERS[name]) == value
        for read_on in (lambda v=value: check_belongs(v, "t/elsewhere"), lambda v=value: configured(v)):
            try:
                read_on()
            except (Corrupt, InvalidRequest) as later:
                seen[type(later).__name__] += 1
    assert seen["Corrupt"] > OF_OLD_CASES * 0.4


def configured(value: Any) -> None:
    if hasattr(value, "config"):
        parse(value.config)
        parse_settings(value.config)


def test_a_value_that_a_later_lithify_stored_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidRequest, match=r"cleanup.policy is stored as 'archive'.*upgrade lithify"):
        parse({"cleanup.policy": "archive"})
    with pytest.raises(InvalidRequest, match=r"num.partitions is stored as 'auto'.*upgrade lithify"):
        parse_settings({"num.partitions": "auto"})
    assert parse({"a.later.setting": "any"}) == parse({})


def test_a_checksum_is_only_what_stands_at_the_end() -> None:
    """A user's text that looks like one is none, in front of it or without it."""
    lookalike = ',"file_xxh3":"0123456789abcdef"}'
    topic = msgspec.structs.replace(whole("topic"), config={lookalike: lookalike, "file_xxh3": "0123456789abcdef"})
    warehouse = msgspec.structs.replace(whole("warehouse"), config={"a": "b", "file_xxh3": "0123456789abcdef"})
    for name, value in (("topic", topic), ("warehouse", warehouse)):
        sealed = encode(value)
        assert decode(KINDS[name], sealed, name, NUMBERS[name]) == value
        plain = msgspec.json.encode(value) + b"\n"
        assert decode(KINDS[name], plain, name, NUMBERS[name]) == value
