"""Uploads apart from their commit (P22, docs/rfcs/0019): when an entry comes, what becomes of it, when it goes; what is
appended by it; and what no sweep may take meanwhile."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tests.sim.judge.groups import TOGETHER_MAX
from tests.sim.judge.layout import Json

__all__ = ["AT_MOST", "AtMost", "protected", "uploaded_wrongly"]

WEEK_MS = 7 * 86_400_000
ID = re.compile(r"[0-9a-f]{16}")
OF_AN_UPLOAD = re.compile(r"([0-9]{12,19}-[0-9a-f]{16})-[0-9a-f]{16}")


class AtMost(NamedTuple):
    uploads: int = 256  # that stand
    segments: int = 4_096  # of one commit


AT_MOST = AtMost()


def name_of(upload: Json) -> str:
    return f"{upload['begun_at']:012}-{upload['id']}"


def protected(head: Json, segment: str) -> str | None:
    """What is wrong with the deletion of `segment`, if an upload stands in `head` after which it is named."""
    name = next((name for name in _standing(head) if segment.startswith(name + "-")), None)
    return name and f"segment {segment} is deleted, and upload {name} stands (P22)"


def uploaded_wrongly(previous: Json, manifest: Json, asked_ms: Collection[int | None], most: AtMost) -> str | None:
    """`asked_ms`: the lifetimes that the author ever asked for; `most`: the bounds."""
    wrong = next(_wrong(previous, manifest, asked_ms, most), None)
    return wrong and f"manifest {manifest['id']} {wrong} (P22)"


def _standing(manifest: Json) -> dict[str, Json]:
    return {name_of(each): each for each in manifest.get("uploads", ())}


def _wrong(previous: Json, manifest: Json, asked_ms: Collection[int | None], most: AtMost) -> Iterator[str]:
    before, after = _standing(previous), _standing(manifest)
    if len(after) > most.uploads or len({each["id"] for each in after.values()}) < len(manifest.get("uploads", ())):
        yield f"has uploads {[*after]}: at most {most.uploads}, each id once"
    if manifest.get("sealed") and after:
        yield "is sealed, and uploads stand"
    for name in after.keys() - before.keys():
        yield from _begun_wrongly(after[name], manifest, asked_ms)
        if any(each["id"] == after[name]["id"] and "appended" in each for each in before.values()):
            yield f"begins {name} in place of one that was appended"
    yield from _let_go_wrongly(before, after, manifest, most)
    done = [name for name in before.keys() & after.keys() if before[name] != after[name]]
    for name in done:
        grown = manifest.get("next_offset", 0) - previous.get("next_offset", 0)
        results = [[manifest["id"], previous.get("next_offset", 0), grown]]
        if not grown:  # its version may have been appended by another
            known = previous.get("transactions", ())
            results = [[each.get("touched_at", 0), each["base_offset"], each["rows"]] for each in known]
        made = [before[name] | {"appended": result} for result in results]
        if "appended" in before[name] or after[name] not in made:
            yield f"makes {after[name]} of upload {before[name]}, and appends {grown}"
    yield from _appended_wrongly(done, previous, manifest, most)


def _let_go_wrongly(before: dict[str, Json], after: dict[str, Json], manifest: Json, most: AtMost) -> Iterator[str]:
    """One that has not expired leaves only where it was appended, before all others that stand; in place of one that is
    begun, and where there was no room for that."""
    standing = {name: each for name, each in before.items() if each["expires_at_ms"] > manifest["committed_at_ms"]}
    early = [] if manifest.get("sealed") else [name for name in before if name in standing and name not in after]
    done = [(each["appended"][0], each["begun_at"], name) for name, each in standing.items() if "appended" in each]
    gives_way = [min(done)[2]] if done and len(standing) >= most.uploads and after.keys() - before.keys() else []
    if early and early != gives_way:
        yield f"lets go of upload {early[0]}, which has not expired; {gives_way or 'none'} may give way"


def _begun_wrongly(upload: Json, manifest: Json, asked_ms: Collection[int | None]) -> Iterator[str]:
    lasts_ms = upload["expires_at_ms"] - manifest["committed_at_ms"]
    if lasts_ms not in asked_ms or not 0 < lasts_ms <= WEEK_MS:
        yield f"begins an upload for {lasts_ms} ms, and {[*asked_ms]} were asked for"
    if upload["begun_at"] != manifest["id"] or "appended" in upload or ID.fullmatch(upload["id"]) is None:
        yield f"begins upload {upload}"


def _appended_wrongly(done: list[str], previous: Json, manifest: Json, most: AtMost) -> Iterator[str]:
    known = {each["id"] for each in previous.get("l0", ())}
    fresh = [each for each in manifest.get("l0", ()) if each["id"] not in known]
    of = {found[1] if (found := OF_AN_UPLOAD.fullmatch(each["id"])) else "" for each in fresh}
    if fresh and of != (set(done) or {""}):
        yield f"appends segments of {sorted(of)}, and what it commits is {done}"
    if len(fresh) > (most.segments if done else TOGETHER_MAX) or len(done) > 1:
        yield f"appends {len(fresh)} segments at once"
    at = previous.get("next_offset", 0)
    for each in fresh:
        if each.get("base_offset") != at:
            yield f"gives segment {each['id']} the offsets from {each.get('base_offset')} on, not from {at}"
        at += each["rows"]
