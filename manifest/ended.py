"""Topics that are over: deleted, with nothing left to collect. They cost a pass nothing (docs/rfcs/0005).

A `.topic` file stays for ever, and so would the requests for it. A collector that has emptied every life of a name up
to version N writes: N is over. Before a topic of that name is created again, its creator writes that a version may
follow N. Both marks are empty objects; a sweep deletes those that a later mark of the same kind replaces. One listing
reads the marks of all topics.
"""

from dataclasses import dataclass

from lithify.manifest.keys import EndKeys, TopicKeys, is_topic_name
from lithify.store.listing import pages
from lithify.store.port import DELETE_KEYS_MAX, Delete, Folders, Head, Put

__all__ = ["Known", "Marks", "say_again", "say_over"]


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one topic's name; 0: none."""

    over: int = 0  # every life up to this version is over and collected
    again: int = 0  # after this version another may have come

    @property
    def at_rest(self) -> bool:
        return self.over > self.again


async def say_over(name: str, number: int) -> None:
    """Requires: version `number` ends a life, which is deleted, sealed and empty like all lives before; and if another
    version follows it, `say_again(name, number)` was called."""
    await Put(EndKeys(name).over(number), b"")


async def say_again(name: str, number: int) -> None:
    await Put(EndKeys(name).again(number), b"")


async def _all_marks() -> tuple[dict[str, Marks], list[str]]:
    """The marks of each topic; and the keys of marks that a later one replaces.

    SUBTLE! 1. A sees mark 4 and mark 7, and deletes 4. 2. B lists meanwhile and misses 4. Since 7 comes after 4 in
    every listing, B still finds 7. So a mark is deleted only if a later one of its kind was seen. Test:
    tests/manifest/test_former_marks.py
    """
    found: dict[str, Marks] = {}
    latest: dict[tuple[str, str], tuple[int, str]] = {}
    former: list[str] = []
    async for page in pages(EndKeys.FOLDER + "/"):
        for each in page.objects:
            parsed = EndKeys.parse(each.key)
            if parsed is None:
                continue
            name, number, what = parsed
            known = found.get(name, Marks())
            over, again = (number, known.again) if what == "over" else (known.over, number)
            found[name] = Marks(max(over, known.over), max(again, known.again))
            before = latest.get((name, what), (number, each.key))
            if before[0] != number:
                former.append(min(before, (number, each.key))[1])
            latest[name, what] = max(before, (number, each.key))
    return found, former


class Known:
    """The topics that one process has to look at, from pass to pass. One coroutine at a time."""

    def __init__(self) -> None:
        self._looked_behind: dict[str, int] = {}  # topics at rest: the version after which none was found

    async def topics(self, *, anew: bool = False, says: bool = True) -> tuple[dict[str, Marks], list[str]]:
        """The topics to look at, with the marks of each, and those at rest. Costs one LIST per 1,000 names, and if
        topics are over one more per 1,000 marks.

        Once per process, and again with `anew`, it checks whether a version follows each topic at rest, because an
        older lithify creates topics without a mark. If so, it writes the missing mark, unless this process writes
        nothing (`says` False). With `anew` and `says` it also deletes marks that later ones replace.
        """
        names = await Folders("")
        marks, former = await _all_marks() if EndKeys.FOLDER in names else ({}, [])
        for start in range(0, len(former) if anew and says else 0, DELETE_KEYS_MAX):
            await Delete(tuple(former[start : start + DELETE_KEYS_MAX]))
        awake: dict[str, Marks] = {}
        resting: list[str] = []
        for name in (name for name in names if is_topic_name(name)):
            known = marks.get(name, Marks())
            if known.at_rest and not await self._woken(name, known.over, anew=anew, says=says):
                resting.append(name)
            else:
                awake[name] = known
        self._looked_behind = {name: n for name, n in self._looked_behind.items() if name in set(resting)}
        return awake, resting

    async def _woken(self, name: str, over: int, *, anew: bool, says: bool) -> bool:
        if self._looked_behind.get(name) == over and not anew:
            return False
        if await Head(TopicKeys(name).config.key(over + 1)) is None:
            self._looked_behind[name] = over
            return False
        if says:
            await say_again(name, over)
        return True
