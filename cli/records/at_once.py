"""The parts of a batch, appended to several partitions of a far store at once (docs/rfcs/0011, docs/rfcs/0030)."""

from collections.abc import Callable, Mapping

from lithify.cli.terminal import warn
from lithify.log.beside import Beside
from lithify.manifest.words import counted
from lithify.segment.spill import NoSpill
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, CommitUnknown, LithifyError, Unavailable

__all__ = ["append_at_once"]


def append_at_once(
    driver: Driver, append_to: Callable[[int, int], None], rows: Mapping[int, int], unknown: dict[int, int]
) -> None:
    """Append to all of these partitions, even if some fail. Then raises one failure, preferably one that trying again
    would not cure. `rows`: how many, by partition. `append_to` gets a partition, and how many of its rows an earlier
    attempt may have appended. `unknown`: these numbers, by partition; kept true during the appends and after them.

    An interruption waits for the appends that have begun, so that it is known what was done. After a second one that is
    not known, and all their rows are in `unknown`.
    """
    before = dict(unknown)
    unknown |= rows
    threads = Beside(driver)

    def append(number: int) -> None:
        try:
            append_to(number, before.get(number, 0))
        except CommitUnknown:
            raise
        except LithifyError:
            if number in unknown:  # else `append_to` found out that nothing is in
                unknown[number] = before.get(number, 0)
            raise

    try:
        outcomes = threads.each(append, list(rows))
    except BaseException:
        for number in rows.keys() - threads.begin_no_other():
            unknown[number] = before.get(number, 0)
        if threads.busy:
            warn("waiting for the appends that are under way")
        threads.settle()
        raise
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed:
        error = min(failed, key=_grade)
        if len(failed) > 1:
            error.add_note(f"{counted(len(failed) - 1, 'other partition')} failed, too")
        raise error


def _grade(error: Exception) -> int:
    """SUBTLE! 1. One partition has forgotten the import, and refuses; another is away. 2. We raise the latter. 3. A
    pipe gives the batch again, and never hears of the refusal. So what waiting does not end comes first. Test:
    tests/cli/test_imports.py"""
    if isinstance(error, CommitUnknown):
        return 1
    return 2 if isinstance(error, Unavailable) and not isinstance(error, AccessDenied | NoSpill) else 0
