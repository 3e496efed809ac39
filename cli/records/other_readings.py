"""Imports of the same source that read its rows in another way, or sent them to another place (docs/rfcs/0011)."""

from collections.abc import Callable, Iterator

from lithify.cli.records.import_entries import Entries, look_at
from lithify.cli.records.readings import Application, Reading, parse_application, told
from lithify.cli.records.unfinished import made_name
from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.store.errors import InvalidRequest, LithifyError

__all__ = ["OtherReadings", "began_without_reading"]


def began_without_reading(topic: Topic, source_id: str, reading: Reading, partition: int | None) -> bool:
    """Whether this import was interrupted before names of imports told how rows are read. Its entries say nothing, so
    whoever names it says how the rest is read."""
    looks = look_at(topic, range(topic.partitions) if partition is None else [partition])
    found = [
        (parsed.reading, entry)
        for _, entry, parsed in _imports(looks)
        if parsed.source_id == source_id and (parsed.over is None) == (partition is not None)
    ]
    if any(known == reading.named(source_id) for known, _ in found):
        return False
    entries = [entry for known, entry in found if not known]
    failed = [look for look in looks.values() if isinstance(look, LithifyError)]
    if failed and not entries:
        # It may be the only one that knows. As another import its rows would be stored twice.
        raise failed[0]
    return bool(entries) and not any(entry.ended for entry in entries)


def _imports(looks: dict[int, Entries | LithifyError]) -> Iterator[tuple[int, TransactionInfo, Application]]:
    for number, entries in looks.items():
        for entry in () if isinstance(entries, LithifyError) else entries:
            if (parsed := parse_application(entry.application)) is not None:
                yield number, entry, parsed


class OtherReadings:
    """What the partitions that were read tell of them. `application`: the present import. `partition`: all its rows go
    there. `given`: a person named the source."""

    def __init__(
        self, topic: Topic, application: str, partition: int | None, now_ms: Callable[[], int], *, given: bool
    ) -> None:
        parsed = parse_application(application)
        assert parsed is not None
        self._topic = topic
        self._application = application
        self._mine: Application = parsed
        self._partition = partition
        self._made = made_name(parsed.source_id) is not None
        self._now_ms = now_ms
        self._given = given
        self.known = False  # some partition knows the present import: it was accepted before
        self._found: dict[int, tuple[Application, TransactionInfo]] = {}

    def note(self, number: int, entries: Entries) -> None:
        for _, entry, parsed in _imports({number: entries}):
            if entry.application == self._application and self._partition in (None, number):
                self.known = True
            if self._is_other(number, parsed) and self._remembered(entry):
                self._found[number] = parsed, entry

    def look(self) -> None:
        """At all partitions: another key column, or another place, sends the first rows elsewhere."""
        for number, entries in look_at(self._topic, range(self._topic.partitions)).items():
            if not isinstance(entries, LithifyError):  # if it failed, a row that goes there will raise
                self.note(number, entries)

    def check(self) -> None:
        """SUBTLE! 1. rows.csv is imported by its column a. 2. Somebody sees that it should have been b, and starts the
        command again with b. 3. As the same import it would append nothing; as another one all records would be in the
        log twice, in silence. Test: tests/cli/test_readings.py"""
        if self.known or not self._found:
            return
        number, (theirs, entry) = min(self._found.items())
        their_way, my_way = self._ways(number, theirs)
        ended = any(entry.ended for _, entry in self._found.values())
        came = "is in the log" if ended else f"has reached record {entry.version} there"
        anew = "give another --source-id" if self._given else "add --new-source"
        read = "read " if theirs.reading != self._mine.reading else ""
        text = (
            f"{self._topic.name}/{number}: this source was imported {their_way} before, and {came}. To "
            f"append it once more, {read}{my_way}, {anew}; what is in the log stays there. To resume "
            f"the earlier import, run the command {their_way}"
        )
        if self._made and not self._given and not ended and read and not theirs.reading:
            text += (
                ". If an older lithify began it, which did not note how rows are read, "
                f"--source-id {theirs.source_id} continues it as it is read now"
            )
        raise InvalidRequest(text)

    def check_again(self) -> None:
        """After the first append of an import that no partition knew.

        SUBTLE! 1. Two imports of one source, by a and by b, look at all partitions; neither has appended anything.
        2. Both append all records. Now each looks again once its first append is committed, so the one that commits
        later sees the other. Test: tests/cli/test_readings_at_once.py"""
        self.look()
        if self._found:
            number, (theirs, _) = min(self._found.items())
            their_way, my_way = self._ways(number, theirs)
            raise InvalidRequest(
                f"{self._topic.name}/{number}: this source is also being imported {their_way}, and that import was not "
                f"to be seen when this one, {my_way}, began. Each would append all records, so this one stops. What "
                "was appended stays in the log; continue only one of them"
            )

    def _ways(self, number: int, theirs: Application) -> tuple[str, str]:
        """What differs between the imports, as flags: of the other one, which was found in partition `number`, and of
        the present one."""

        def way(each: Application, partition: int | None) -> str:
            place = "without --partition" if partition is None else f"with --partition {partition}"
            texts = [told(each.reading)] if theirs.reading != self._mine.reading else []
            return " and ".join([*texts, place] if there != self._partition else texts)

        there = number if theirs.over is None else None
        return way(theirs, there), way(self._mine, self._partition)

    def _is_other(self, number: int, theirs: Application) -> bool:
        if theirs.source_id != self._mine.source_id:
            return False
        there = number if theirs.over is None else None
        if None not in (there, self._partition) and there != self._partition:
            # A person may give one name to several sources, each for a partition of its own.
            return self._made
        return theirs.reading != self._mine.reading or there != self._partition

    def _remembered(self, entry: TransactionInfo) -> bool:
        since = self._now_ms() - self._topic.parsed_config.transactional_id_expiration_ms
        return (entry.committed_at_ms or 0) >= since
