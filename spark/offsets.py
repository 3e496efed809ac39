"""Where a stream is (docs/rfcs/0022): an offset for each partition, as Spark keeps it; how far a batch goes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lithify.manifest.model import Growth
from lithify.store.errors import InvalidRequest

__all__ = ["ends_in_order", "limited", "read_offsets", "spell_offsets", "stretches"]


def spell_offsets(topic: str, topic_id: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    """{"topic": the topic's id, "name": its name, "offsets": {"0": next offset, …}}. The keys are always in this order,
    because Spark compares the text."""
    return {"topic": topic_id, "name": topic, "offsets": {str(number): offsets[number] for number in sorted(offsets)}}


def read_offsets(spelled: object, topic: str, topic_id: str) -> dict[int, int]:
    """Raises InvalidRequest for what is not of this topic. A checkpoint of an older lithify names no topic."""
    offsets = spelled.get("offsets") if isinstance(spelled, dict) else None
    if not isinstance(spelled, dict) or not isinstance(spelled.get("topic"), str) or not isinstance(offsets, dict):
        raise InvalidRequest(
            f"topic {topic}: the checkpoint holds no offsets of lithify: another source wrote it. {_NEW_CHECKPOINT}"
        )
    if spelled["topic"] == topic_id:
        for number, offset in offsets.items():
            if not (str(number).isascii() and str(number).isdecimal() and type(offset) is int and offset >= 0):
                raise InvalidRequest(
                    f"topic {topic}: the checkpoint's offsets cannot be read: it was altered, or a newer lithify wrote "
                    f"it. {_NEW_CHECKPOINT}"
                )
        return {int(number): offset for number, offset in offsets.items()}
    name = spelled.get("name")
    if name is None:
        what = (
            "the checkpoint belongs to another topic: one with another name, or one with this name that was deleted "
            "and created again"
        )
    elif name == topic:
        what = (
            "the topic was deleted and created again, or the checkpoint is of another warehouse: its offsets are of "
            "another log"
        )
    else:
        what = f"the checkpoint belongs to topic {name}: each topic needs a checkpointLocation of its own"
    raise InvalidRequest(f"topic {topic}: {what}. {_NEW_CHECKPOINT}")


_NEW_CHECKPOINT = (
    "Start the query with a new checkpointLocation; startingOffsets (earliest, latest) says where it begins then"
)


def ends_in_order(begin: Mapping[int, int], logs: Mapping[int, range], growths: Sequence[Growth]) -> dict[int, int]:
    """How far the next batch may go: to the ends of the logs; but not past a growth of the topic, oldest first, until
    all that was appended before it is read. Requires: `begin` is not beyond the ends.

    SUBTLE! 1. A topic grows from two partitions to three, and a key moves from partition 1 to 0. 2. A batch reads all.
    The tasks of partition 0 come first, with the key's new record, and then its old one, from partition 1. 3. Whoever
    copies the stream to a topic has the old one as the latest for good. Test: tests/spark/test_stream_offsets.py

    A growth whose ends are not known (an older lithify, or more than 16 growths ago) holds nothing back. A log that
    was restored to a point before such an end counts as read at its own end.
    """
    for growth in growths:
        ends = {number: end for number, end in enumerate(growth.ends) if end is not None and number in logs}
        if len(ends) < growth.partitions:
            continue
        if any(begin.get(number, 0) < min(end, logs[number].stop) for number, end in ends.items()):
            return {
                number: max(begin.get(number, 0), min(ends.get(number, 0), log.stop)) for number, log in logs.items()
            }
    return {number: log.stop for number, log in logs.items()}


def limited(begin: Mapping[int, int], ends: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """At most `rows_max` offsets in all. Each partition that has more to read gets one at least, and the rest in
    proportion to what is there; if there are more such partitions than `rows_max`, they take turns. A partition that
    `begin` does not name was added: it starts at 0, and is left out as long as it gets nothing.

    SUBTLE! 1. Ten small partitions get a record in each batch; a large one has a million. `rows_max` is 10. 2. Shares
    that are rounded up, the smallest first, leave nothing for the large one. 3. Its backlog grows for ever.
    Test: tests/spark/test_stream_offsets.py
    """
    there = {number: last - begin.get(number, 0) for number, last in ends.items() if last > begin.get(number, 0)}
    if sum(there.values()) <= rows_max:
        taken = there
    elif len(there) > rows_max:
        taken = _in_turn(sorted(there), sum(begin.values()), rows_max)
    else:
        taken = _in_proportion(there, rows_max)
    return {
        number: begin.get(number, 0) + taken.get(number, 0)
        for number in sorted(ends)
        if number in begin or taken.get(number)
    }


def _in_turn(numbers: list[int], before: int, count: int) -> dict[int, int]:
    """One each, for `count` of them. `before`: how many offsets were read so far. Each batch adds `count` to it, so the
    next batch continues with the partitions after these."""
    return {numbers[(before + index) % len(numbers)]: 1 for index in range(count)}


def _in_proportion(there: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """One each; the rest in proportion to what is left, rounded down; what that leaves goes to the largest remainders.
    Requires: len(there) <= rows_max < the sum."""
    left, rest = sum(there.values()) - len(there), rows_max - len(there)
    shares = {number: divmod(rest * (count - 1), left) for number, count in there.items()}
    left_over = rest - sum(share for share, _ in shares.values())
    more = sorted(shares, key=lambda number: (-shares[number][1], number))[:left_over]
    return {number: 1 + share + (number in more) for number, (share, _) in shares.items()}


def stretches(start: int, end: int, rows_max: int) -> Iterator[tuple[int, int]]:
    """Even parts of at most `rows_max` offsets; none if `end` is not beyond `start`."""
    parts = -(-max(0, end - start) // rows_max)
    for index in range(parts):
        yield start + (end - start) * index // parts, start + (end - start) * (index + 1) // parts
