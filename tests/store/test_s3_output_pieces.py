"""However an object is cut into writes, what is stored is what was written, in parts that S3 takes."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lithify.store.s3 import S3Store
from lithify.store.s3_output import PART_BYTES, S3Output

PART = 8  # stands for PART_BYTES
KINDS: tuple[Callable[[bytes], Any], ...] = (bytes, bytearray, lambda piece: memoryview(bytearray(piece)))


class Kept:
    """A client that keeps parts, and repeats nothing."""

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.whole: bytes | None = None

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "u"}

    def upload_part(self, **given: Any) -> dict[str, str]:
        self.parts[given["PartNumber"]] = given["Body"]
        return {"ETag": "e"}

    def complete_multipart_upload(self, **given: Any) -> None:
        numbers = [part["PartNumber"] for part in given["MultipartUpload"]["Parts"]]
        assert numbers == sorted(self.parts) == list(range(1, len(numbers) + 1))
        self.whole = b"".join(self.parts[number] for number in numbers)

    def of_bulk(self, ask: Callable[[], Any]) -> Any:
        return ask()

    def put(self, body: bytes) -> None:
        self.whole = body

    def output(self) -> S3Output:
        return S3Output(self, {}, "here", lambda _: {}, self, lambda: None, self.put)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3 * PART)), max_size=8))
@example([(bytes, 1), (bytes, PART)])
@example([(bytes, PART), (bytes, PART), (bytes, 1)])
def test_what_is_stored_is_what_was_written(writes: list[tuple[Callable[[bytes], Any], int]]) -> None:
    written, kept = b"", Kept()
    with patch("lithify.store.s3_output.PART_BYTES", PART):
        output = kept.output()
        for kind, size in writes:
            piece = bytes((len(written) + at) % 251 for at in range(size))
            written += piece
            given_away = kind(piece)
            assert output.write(given_away) == size
            if not isinstance(given_away, bytes):  # whoever wrote it may use it again
                given_away[:] = bytes(size)
        output.close()
    assert kept.whole == written
    *others, last = [kept.parts[number] for number in sorted(kept.parts)] or [b""]
    assert all(len(part) == PART for part in others)
    assert len(last) <= PART


@pytest.mark.parametrize("first", [1, PART_BYTES - 1, PART_BYTES])
def test_one_piece_as_large_as_a_part_after_another(s3_store: S3Store, first: int) -> None:
    pieces = [b"a" * first, b"b" * PART_BYTES, b"c"]
    output = s3_store.output("k")
    for piece in pieces:
        output.write(piece)
    output.close()
    found = s3_store.get("k")
    assert found is not None
    assert found.body == b"".join(pieces)
