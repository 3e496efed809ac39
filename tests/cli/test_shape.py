"""`lithify topic describe NAME --partition N` draws the partition."""

from typing import Any

import lithify as face
from lithify.cli.shape import PLAIN, shape_lines
from lithify.log.info import PartitionInfo, RunInfo, SegmentInfo
from tests.cli.conftest import Lithify, changes


def segment(name: str, keys: tuple[bytes | None, bytes | None], size: int, offsets: tuple[int, int] = (0, 9)) -> Any:
    rest = {"home": "", "rows": 10, "min_timestamp_ms": 0, "max_timestamp_ms": 0, "tombstones": 0, "added_at": 1}
    low, high = offsets
    order = "offset" if keys == (None, None) and low else "key"
    bounds = {"min_key": keys[0], "max_key": keys[1], "min_offset": low, "max_offset": high}
    return SegmentInfo(id=name, bytes=size, order=order, **bounds, **rest)


def partition(l0: tuple[SegmentInfo, ...], runs: tuple[RunInfo, ...] = (), **more: Any) -> PartitionInfo:
    blank = dict.fromkeys(PartitionInfo.__struct_fields__, 0)
    return PartitionInfo(**(blank | {"l0": l0, "runs": runs} | more))


def test_bars_lie_over_the_key_range_from_the_smallest_run_to_the_largest() -> None:
    big = RunInfo(
        id="big",
        segments=(segment("1", (b"a", b"c"), 4_000), segment("2", (b"d", b"e"), 2_500), segment("3", (b"f", None), 10)),
    )
    small = RunInfo(id="small", segments=(segment("4", (b"b", b"d"), 900),))
    info = partition((segment("loose", (None, b"a"), 1_500),), (big, small))
    assert list(shape_lines(info, 80, PLAIN)) == [
        "         keys, from the lowest to the highest",
        "L0: 1 segment, 1.5 KiB",
        "  loose  :                                    1.5 KiB        10 rows",
        "runs: 2, 7.2 KiB",
        "  small        ..............                   900 B        10 rows",
        "  big    #############      =======      .    6.4 KiB        30 rows  3 segments",
    ]


def test_bars_of_a_topic_in_offset_order_lie_over_the_offsets_and_show_the_floor() -> None:
    run = RunInfo(id="run", segments=(segment("1", (None, None), 100, (10, 59)),))
    info = partition((segment("l", (None, None), 50, (60, 99)),), (run,), log_start_offset=40, next_offset=100)
    assert list(shape_lines(info, 60, PLAIN))[2:] == [
        "  l                  :::::::::::::       50 B        10 rows",
        "runs: 1, 100 B",
        "  run  ###############                  100 B        10 rows",
        "               ^ the log starts here",
    ]


def test_many_loose_segments_are_not_all_drawn() -> None:
    told = list(shape_lines(partition(tuple(segment(f"s{n}", (b"a", b"b"), 1) for n in range(20))), 80, PLAIN))
    assert sum(line.startswith("  s") for line in told) == 8
    assert told[2].startswith("  s19 "), "the newest first"
    assert "  and 12 older segments" in told
    assert list(shape_lines(partition(()), 80)) == ["no segments yet"]


def test_a_partition_is_described_with_its_pins(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", "--partition", "1", input=changes(20))
    lithify.ok("checkpoint", "create", "users", "kept", "--partition", "1")
    told = lithify.ok("topic", "describe", "users", "--partition", "1")
    assert "L0: 1 segment" in told
    assert "pins: 1\n  checkpoint kept: manifest 3, expires never" in told
    assert "k0" not in told, "keys are contents of records"
    assert lithify.json("topic", "describe", "users", "--partition", "1")["next_offset"] == 20
    lithify.refused("topic", "describe", "users", "--partition", "2", code=3, saying="partition")
    lithify.refused("topic", "describe", "users", "--partition", "0", "--defaults", code=2, saying="leave out")


def test_an_expired_checkpoint_is_marked() -> None:
    now = [1_000_000]
    with face.open("memory://expired-checkpoints", clock=lambda: now[0]) as warehouse:
        part = warehouse.create_topic("users", probe=False).partition(0)
        part.snapshot(pin="short", ttl=1_000)
        part.snapshot(pin="long")
        admin = face.Admin(warehouse)
        now[0] += 999
        assert [each.expired for each in admin.checkpoints("users").items] == [False, False]
        now[0] += 1
        found = {each.checkpoint.name: each.expired for each in admin.checkpoints("users").items}
        assert found == {"short": True, "long": False}
