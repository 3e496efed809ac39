"""What `lithify append` tells in the end."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lithify.cli.output import Output
from lithify.cli.terminal import warn
from lithify.manifest.words import counted
from lithify.store.errors import Unavailable

if TYPE_CHECKING:
    from lithify.cli.records.imports import Import
    from lithify.log.topic import Topic

__all__ = ["Appended", "tell_appended"]


class Appended:
    """One source that was appended whole."""

    def __init__(self, topic: "Topic", started: "Import", source: str, passed_over: int, *, new_source: bool) -> None:
        self.it = started
        self._new_source = new_source
        self.source = source
        self._topic = topic
        self._passed_over = passed_over
        self.expired = self._expired()

    def lines(self, *, several: bool) -> Iterable[str]:
        it, passed_over = self.it, self._passed_over
        line = f"{counted(it.appended, 'record')} appended to {self._topic.name}"
        if it.already_there:
            line += f"; {it.already_there} of this source already in the log"
        yield f"{self.source}: {line}" if several else line
        if passed_over:
            counts = f"the first {passed_over} were" if passed_over > 1 else "the first one was"
            yield f"  {counts} skipped" + (" (the source has no more)" if passed_over < it.passed_over else "")
        if again := [flag for flag, given in (("--source-id", it.found_by_name), ("--skip", it.passed_over)) if given]:
            yield f"  if you run it again, give the same {' and '.join(again)}"
        if it.already_there and not it.appended:
            for_others = "--new-source is for other content or other columns; " if self._new_source else ""
            again = "the same records" if self._new_source else "them"
            yield f"  {for_others}to append {again} once more, give another --source-id"
        if it.appended and not it.already_there and it.path_had_other_content:
            yield (
                "  this path had other content before, which is in the log, too. If the file grows, give it a "
                "--source-id from its first import on: then only what was added is appended"
            )
        for number, given in sorted(it.offsets.items()):
            yield f"  partition {number}: {_offsets_text(given)}"

    def value(self) -> dict[str, Any]:
        it = self.it
        offsets = sorted(it.offsets.items())
        partitions = {str(number): {"first": given.start, "last": given.stop - 1} for number, given in offsets}
        value: dict[str, Any] = {"topic": self._topic.name, "appended": it.appended, "already_there": it.already_there}
        value["passed_over"] = self._passed_over
        return value | {"source_id": it.source_id, "partitions": partitions, "expired": self.expired}

    def _expired(self) -> int:
        """How many of the records are below the log start: mostly old timestamps in a topic that deletes by age. 0 if
        the store does not answer now: they are appended, whatever is known of this."""
        with contextlib.suppress(Unavailable):
            return self._below_log_start()
        return 0

    def _below_log_start(self) -> int:
        if not self._topic.parsed_config.deleting:
            return 0
        appended = self.it.offsets
        starts = {number: self._topic.partition(number).snapshot().log_start_offset for number in appended}
        return sum(min(max(starts[number] - given.start, 0), len(given)) for number, given in appended.items())


def _offsets_text(given: range) -> str:
    return f"offset {given.start}" if len(given) == 1 else f"offsets {given.start} to {given.stop - 1}"


def tell_appended(output: Output, topic: str, done: Sequence[Appended]) -> None:
    several = len(done) > 1
    lines = [line for each in done for line in each.lines(several=several)]
    value = done[0].value()
    if several:
        counts = {"appended": sum(d.it.appended for d in done), "already_there": sum(d.it.already_there for d in done)}
        value = {"topic": topic, **counts, "sources": [{"source": each.source, **each.value()} for each in done]}
        lines.append(f"{counted(counts['appended'], 'record')} of {len(done)} sources appended to {topic}")
    output.answer(value, lambda: output.lines(lines))
    expired = sum(each.expired for each in done)
    if expired:
        are, them = ("is", "it") if expired == 1 else ("are", "them")
        text = f"{counted(expired, 'appended record')} {are} already past the topic's retention"
        warn(f"warning: {topic}: {text}, so readers do not see {them}; see retention.* and cleanup.policy")
