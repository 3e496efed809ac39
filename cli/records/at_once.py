"""The parts of a batch, appended to several partitions of a far store at once (docs/rfcs/0011, docs/rfcs/0030)."""

from collections.abc import Callable, Mapping

from lithify.cli.terminal import warn
from lithify.log.beside import Beside
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, LithifyError, Unavailable

__all__ = ["append_at_once"]


def append_at_once(
    driver: Driver, append_to: Callable[[int, int], None], rows: Mapping[int, int], unknown: dict[int, int]
) -> None:
    """Append to all of these partitions, even if one fails; then raise the failure, best one that keeps the batch from
    being tried again. `rows`: how many, by partition. `append_to` gets a partition, and how many of its rows an earlier
    attempt may have appended; `unknown` says so.

    An interruption waits for the appends that have begun, so that it is known what was done. A second one does not;
    then all their rows are in `unknown`.
    """
    before, begun = dict(unknown), set[int]()
    unknown |= rows
    threads = Beside(driver)

    def append(number: int) -> None:
        begun.add(number)
        try:
            append_to(number, before.get(number, 0))
        except CommitUnknown:
            raise
        except LithifyError:
            if number in unknown:
                unknown[number] = before.get(number, 0)
            raise

    def forget(numbers: set[int]) -> None:
        for number in numbers:
            unknown.pop(number, None)
            if number in before:
                unknown[number] = before[number]

    try:
        outcomes = dict(zip(rows, threads.each(append, list(rows)), strict=True))
    except BaseException:
        if threads.busy:
            warn("waiting for the appends that are under way; Ctrl-C again does not wait")
        threads.settle()
        forget(rows.keys() - begun)
        raise
    failed = {number: outcome for number, outcome in outcomes.items() if isinstance(outcome, Exception)}
    if failed:
        raise _worst(failed)


def _worst(failed: Mapping[int, Exception]) -> Exception:
    """SUBTLE! 1. One partition has forgotten the import, and refuses; another is away. 2. We raise the latter. 3. A
    pipe gives the batch again, and never hears of the refusal. Test: tests/cli/test_imports.py"""
    error = min(failed.values(), key=_grade)
    for number, other in failed.items():
        if other is not error:
            error.add_note(f"partition {number} failed, too: {other}")
    return error


def _grade(error: Exception) -> int:
    return 1 if isinstance(error, CommitUnknown) else 2 if isinstance(error, Unavailable) else 0
