"""What must hold between the run lists of a manifest and those of its successor (P23). Pure."""

from collections.abc import Iterator

from lithify.manifest.keys import RunListId
from lithify.manifest.model import RETIRED_LISTS_MAX, Manifest
from lithify.manifest.runs import Runs

__all__ = ["list_problems"]


def list_problems(previous: Manifest | None, following: Manifest) -> Iterator[str]:
    """The invariants that the lists of `following` break, as the successor of `previous`."""
    yield from _shape(following)
    if previous is not None:
        yield from _moves(previous, following)


def _shape(manifest: Manifest) -> Iterator[str]:
    if not (manifest.lists or manifest.retired_lists):
        return
    ids = [each.id for each in (*manifest.lists, *manifest.retired_lists)]
    if len(set(ids)) != len(ids):
        yield "a run list is named or retired, once"
    if sum(each.segments for each in manifest.lists) > len(Runs.of(manifest.runs).segments):
        yield "what is listed is in the runs"
    if any(
        each.segments <= 0 or not RunListId.number(each.id) <= each.added_at <= manifest.id for each in manifest.lists
    ):
        yield "a run list was written for the manifest that first names it, or an earlier number"
    if len(manifest.retired_lists) > RETIRED_LISTS_MAX and not manifest.sealed:
        yield f"retired_lists is bounded by {RETIRED_LISTS_MAX}"


def _moves(previous: Manifest, following: Manifest) -> Iterator[str]:
    was = {each.id: each for each in previous.lists}
    now = {each.id: each for each in following.lists}
    was_retired = {each.id: each for each in previous.retired_lists}
    is_retired = {each.id: each for each in following.retired_lists}
    if following.runs is previous.runs and following.lists != previous.lists:
        yield "lists stay while the runs do"
    if any(was[name] != now[name] for name in was.keys() & now.keys()):
        yield "a run list that stays does not change"
    for name in now.keys() - was.keys():
        if now[name].added_at != following.id or RunListId.number(name) < previous.orphan_floor:
            yield "a new run list says when it was added, and no sweep may have taken it"
        if name in was_retired:
            yield "a retired run list does not return"
    if was.keys() - now.keys() - is_retired.keys():
        yield "a run list leaves for the retired ones only"
    for name in is_retired.keys() - was_retired.keys():
        entry = is_retired[name]
        if name not in was or (entry.added_at, entry.retired_at) != (was[name].added_at, following.id):
            yield "a run list that is newly retired was named, and says when"
    for name in was_retired.keys() - is_retired.keys():
        if was_retired[name].retired_at > following.orphan_floor:
            yield "the orphan floor covers the run lists that were collected"
    if any(was_retired[name] != is_retired[name] for name in was_retired.keys() & is_retired.keys()):
        yield "a retired run list does not change"
