"""Imports of the same source that read its rows in another way (docs/rfcs/0011)."""

from collections.abc import Callable

from lithify.cli.records.import_entries import Entries
from lithify.cli.records.readings import Application, parse_application, told
from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.store.errors import InvalidRequest

__all__ = ["OtherReadings"]


class OtherReadings:
    """What the partitions that were read tell of them. `application`: the present import. `given`: a person named the
    source."""

    def __init__(self, topic: Topic, application: str, now_ms: Callable[[], int], *, given: bool) -> None:
        parsed = parse_application(application)
        assert parsed is not None
        self._topic = topic
        self._application = application
        self._mine: Application = parsed
        self._now_ms = now_ms
        self._given = given
        self._known = False  # some partition knows the present import: it was accepted before
        self._found: dict[int, tuple[Application, TransactionInfo]] = {}

    def note(self, number: int, entries: Entries) -> None:
        for entry in entries:
            if entry.application == self._application:
                self._known = True
            parsed = parse_application(entry.application)
            if parsed is not None and self._is_other(parsed) and self._remembered(entry):
                self._found[number] = parsed, entry

    def check(self) -> None:
        """SUBTLE! 1. rows.csv is imported by its column a. 2. Somebody sees that it should have been b, and starts the
        command again with b. 3. As the same import it would append nothing; as another one all records would be in the
        log twice, in silence. Test: tests/cli/test_readings.py"""
        if self._known or not self._found:
            return
        number, (theirs, entry) = min(self._found.items())
        ended = any(entry.ended for _, entry in self._found.values())
        came = "is in the log" if ended else f"has reached record {entry.version} there"
        anew = "give another --source-id" if self._given else "add --new-source"
        raise InvalidRequest(
            f"{self._topic.name}/{number}: this source was imported {told(theirs.reading)} before, and {came}. To "
            f"append it once more, read {told(self._mine.reading)}, {anew}; what is in the log stays there. To resume "
            f"the earlier import, run the command {told(theirs.reading)}"
        )

    def _is_other(self, theirs: Application) -> bool:
        mine = self._mine
        same = theirs.source_id == mine.source_id and (theirs.over is None) == (mine.over is None)
        return same and theirs.reading != mine.reading

    def _remembered(self, entry: TransactionInfo) -> bool:
        since = self._now_ms() - self._topic.parsed_config.transactional_id_expiration_ms
        return (entry.committed_at_ms or 0) >= since
