"""What the partitions of a topic remember about an import."""

import re
from collections.abc import Collection

from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.manifest.transactions import Reach
from lithify.manifest.words import counted, numbers_text
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.many import many

__all__ = ["LOOKS_AT_ONCE", "Entries", "began_over", "grown", "look_at"]

LOOKS_AT_ONCE = 16

Entries = tuple[TransactionInfo, ...]


def look_at(topic: Topic, numbers: Collection[int]) -> dict[int, Entries | LithifyError]:
    """What each of these partitions remembers, or the error that it raised."""

    def look(number: int) -> Entries | LithifyError:
        try:
            return topic.partition(number).transactions()
        except LithifyError as error:
            return error

    return dict(zip(numbers, many(look, numbers, LOOKS_AT_ONCE), strict=True))


def began_over(
    topic: Topic, name: str, former: tuple[int, ...], looks: dict[int, Entries | LithifyError]
) -> int | None:
    """The number of partitions over which this import began; None: the present number, or it begins now. `former`: the
    partition counts before the topic grew. `looks`: at all partitions."""
    shape = re.compile(re.escape(name) + r" over ([0-9]+)")
    entries = [each for look in looks.values() if not isinstance(look, LithifyError) for each in look]
    found = {int(match[1]) for each in entries if (match := shape.fullmatch(each.application))}
    if len(found) > 1:
        counts = " and ".join(map(str, sorted(found)))
        raise InvalidRequest(
            f"topic {topic.name}: {name} was started with {counts} partitions, because the topic grew in between. "
            "Compare the log with the source, and remove the wrong entry with 'lithify transaction forget "
            f"{topic.name} …'"
        )
    failed = {n: look for n, look in looks.items() if n < max(former) and isinstance(look, LithifyError)}
    if failed and not found:
        # It may be the only one that knows. By another count the import's rows would go elsewhere, and be stored twice.
        error = next(iter(failed.values()))
        error.add_note(
            f"topic {topic.name} has grown to {counted(topic.partitions, 'partition')}, and without "
            f"{numbers_text('partition', list(failed))} lithify cannot tell how many partitions this import began "
            "with, so nothing was appended. Retry later, or import into one partition with --partition"
        )
        raise error
    return found.pop() if found else None


def grown(reach: Reach) -> tuple[int, int]:
    """Grows with each append."""
    return reach.version, -sum(each.last - each.first + 1 for each in reach.passed_over)
