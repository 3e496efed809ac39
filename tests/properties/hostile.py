"""Bytes that users may well write, and that look like parts of the format, or lie where bounds are cut."""

import ast
import random
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lithify.manifest.model import KEY_BOUND_BYTES
from tests.properties.history import Alphabet

__all__ = ["bounds", "lookalikes", "words"]

GOLDEN = Path(__file__).parents[1] / "golden"
PRODUCT = Path(__file__).parents[2] / "typings" / "lithify"
OF_PARQUET = (
    b"PAR1",
    b"PARE",
    b"ARROW:schema",
    b"PARQUET:field_id",
    b"parquet-cpp-arrow",
    b"\x15\x04\x19",
    b"\x19\x7c\x1c\0\0",
)
NAME, ZEROS, HEADER = b"lithify.footer.xxh3", b"0" * 16, b"\x18\x10"
COMPOSED = (
    NAME + ZEROS,
    NAME + HEADER + ZEROS,
    b"\x18\x13" + NAME + HEADER + b"0123456789abcdef\0",
    NAME + HEADER,
    b"lithify.row_groups.xxh3" + ZEROS,
    ZEROS,
    ZEROS + b"-" + ZEROS,
    b"PAR1\0\0\0\0PAR1",
)
WORD_BYTES_MAX = 64


@cache
def words() -> tuple[bytes, ...]:
    """The constants of the product's modules (names of fields, suffixes, magic), pieces of its JSON, and Parquet's."""
    found = {*OF_PARQUET, *COMPOSED, *_constants(), *_json()}
    return tuple(sorted(word for word in found if 0 < len(word) <= WORD_BYTES_MAX))


def _constants() -> Iterator[bytes]:
    for module in sorted([*PRODUCT.glob("*/*.py"), *PRODUCT.glob("*/*/*.py")]):
        for node in ast.walk(ast.parse(module.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                word = node.value if isinstance(node.value, bytes) else node.value.encode(errors="surrogatepass")
                if not any(letter in word for letter in string.whitespace.encode()):
                    yield word


def _json() -> Iterator[bytes]:
    for file in sorted(GOLDEN.glob("v*/*.json")):
        yield from file.read_bytes().split(b",")


def lookalikes(dice: random.Random) -> Alphabet:
    """A few words of the format as keys, values and header names; those of its checksum more often than others."""
    keys = {*dice.sample(words(), 5), *dice.sample(COMPOSED, 2), NAME, dice.choice((b"", b"zz"))}
    texts = dice.sample(words(), 4) + dice.sample(COMPOSED, 1)
    names = [word.decode("utf-8", "replace") for word in dice.sample(words(), 3)]
    return Alphabet(tuple(sorted(keys)), tuple(texts), tuple(names))


def bounds(dice: random.Random, longest: int) -> Alphabet:
    """Keys that are alike up to where a bound is cut, one byte less or one more; what such a bound is rounded to, and
    its neighbours; two as long as `longest`."""
    run = dice.choice((0, 1, 1, 2, 31, KEY_BOUND_BYTES, KEY_BOUND_BYTES))  # bytes that cannot be rounded up
    stem = bytes(dice.choices((0, 0x61, 0xFE), k=KEY_BOUND_BYTES - run))
    shared = stem + b"\xff" * run
    above = stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\xff" * KEY_BOUND_BYTES
    ends = (b"", b"\0", b"a", b"b", b"\xff", b"\xff" * 40, b"\0" * 40)
    keys = {shared + end for end in dice.sample(ends, 4)} | {shared[:-1] + dice.choice(ends), shared + b"aa"}
    keys |= {above + end for end in dice.sample((b"", b"\0", b"\0" * run, b"\xff" * run), 2)}
    keys |= {dice.choice((b"", b"\0", b"\xff", b"zz"))}
    if longest:
        keys |= {shared.ljust(longest - 1, dice.choice((b"\0", b"\xff"))) + end for end in (b"", b"\xff")}
    return Alphabet(tuple(sorted(keys)))
