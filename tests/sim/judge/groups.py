"""Appends of several callers in one commit (RFC 0024): each as if it had come alone, after those before it."""

from collections.abc import Iterator, Sequence

from tests.sim.judge.layout import Json
from tests.sim.judge.settings import Settings

__all__ = ["TOGETHER_MAX", "appended_wrongly"]

TOGETHER_MAX = 256


def appended_wrongly(previous: Json, manifest: Json, configs: Sequence[Settings]) -> str | None:
    """`configs`: those that any of the callers may go by."""
    wrong = next(_wrong(previous, manifest, configs), None)
    return wrong and f"manifest {manifest['id']} {wrong}"


def _wrong(previous: Json, manifest: Json, configs: Sequence[Settings]) -> Iterator[str]:
    known = {each["id"] for each in previous.get("l0", ())}
    fresh = [each for each in manifest.get("l0", ()) if each["id"] not in known]
    if not fresh or _of_an_upload(previous, manifest):
        return
    if len(fresh) > TOGETHER_MAX:
        yield f"holds {len(fresh)} appends (RFC 0024)"
    most = max((config.l0_max for config in configs), default=None)
    if most is not None and len(manifest["l0"]) > most:
        yield f"has {len(manifest['l0'])} L0 segments, by an append, and {most} are allowed (RFC 0024)"
    for each in fresh:
        number = int(each["id"].partition("-")[0])
        if number < previous.get("orphan_floor", 0):
            yield f"appends {each['id']}, which is older than the orphan floor {previous['orphan_floor']} (P7)"
        if number > previous["id"]:
            yield f"appends {each['id']}, whose number nobody had read (P7)"
    yield from _of_clients(fresh, previous, manifest)


def _of_clients(fresh: Sequence[Json], previous: Json, manifest: Json) -> Iterator[str]:
    """Each producer and each application is behind one append at most, and its entry says which."""
    for names, field in (("producers", "id"), ("transactions", "application")):
        before = {each[field]: each for each in previous.get(names, ())}
        places: list[tuple[int, int]] = []
        for each in manifest.get(names, ()):
            was = before.get(each[field])
            if each == was or each.get("touched_at", 0) != manifest["id"]:
                continue
            done = each["batches"][-1] if names == "producers" else each
            places.append((done["base_offset"], done["rows"]))
<<<<<<< HEAD
            if (
                names == "producers"
                and was is not None
                and each["next_sequence"] != was["next_sequence"] + done["rows"]
            ):
=======
            goes_on = was is None or each.get("next_sequence", 0) == was.get("next_sequence", 0) + done["rows"]
            if names == "producers" and not goes_on:
>>>>>>> 9f415bdc18985f21fa8630ab52142d336ea683e6
                yield f"moves producer {each['id']} by more than one append (RFC 0024)"
        there = {(ref["base_offset"], ref["rows"]) for ref in fresh}
        if len(set(places)) < len(places) or not there.issuperset(places):
            yield f"says that its {names} are at {places}, and appends {sorted(there)} (P6)"


def _of_an_upload(previous: Json, manifest: Json) -> bool:
    return previous.get("uploads") != manifest.get("uploads")
