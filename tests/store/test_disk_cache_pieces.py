"""A range of more than 2 MiB is kept in pieces, so that it does not matter how a reader cuts its requests."""

import os
from pathlib import Path

import pytest

from lithify.store.disk_cache import DiskCache
from lithify.store.disk_cache_counts import DiskCacheCounts

KEY = "users/0123456789abcdef/00000/segments/000000000001-0123456789abcdef.parquet"
PLACE = "s3://far/p"
MIB = 1 << 20
LARGE = os.urandom(5 * MIB)
PARTS = ["0-2097152", "2097152-2097152", "4194304-1048576"]


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "used"]


def ask(cache: DiskCache, start: int = 0, length: int = len(LARGE)) -> list[tuple[int, int]]:
    """What was fetched for it."""
    fetched: list[tuple[int, int]] = []

    def fetch(at: int, size: int) -> bytes:
        fetched.append((at, size))
        return LARGE[at : at + size]

    assert cache.read((PLACE, KEY, start, length), fetch) == LARGE[start : start + length]
    return fetched


def test_a_large_range_is_kept_in_pieces_however_it_is_cut_later(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 64 * MIB)
    assert ask(cache) == [(0, 5 * MIB)], "one request"
    assert sorted(entry.name for entry in entries(tmp_path)) == PARTS
    assert [ask(cache), ask(cache, 2 * MIB, 3 * MIB), ask(cache, 0, 2 * MIB)] == [[], [], []]


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize(
    ("lost", "fetched"),
    [([0], [(0, 2)]), ([0, 2], [(0, 2), (4, 1)]), ([1, 2], [(2, 3)]), ([0, 1, 2], [(0, 5)])],
    ids=str,
)
def test_of_a_large_range_only_what_is_missing_is_fetched(
    tmp_path: Path, lost: list[int], fetched: list[tuple[int, int]], damaged: bool
) -> None:
    cache = DiskCache(tmp_path, 64 * MIB)
    ask(cache)
    for path in [path for path in entries(tmp_path) if PARTS.index(path.name) in lost]:
        if damaged:
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        else:
            path.unlink()
    assert cache.has((PLACE, KEY, 0, len(LARGE))) == damaged
    assert ask(cache) == [(at * MIB, size * MIB) for at, size in fetched]
    assert ask(cache) == []
    assert cache.has((PLACE, KEY, 0, len(LARGE)))
    assert cache.counts()._replace(hit_bytes=0, missed_bytes=0) == DiskCacheCounts(
        6 - len(lost), 3 + len(lost), damaged=len(lost) if damaged else 0
    )
