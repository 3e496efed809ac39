"""What a merge keeps, drops and stamps, by RFC 0004: of each record exactly that, by the rules that its job froze."""

from collections.abc import Mapping

from tests.sim.judge.layout import Json
from tests.sim.judge.records import Record

__all__ = ["committed_wrongly", "merged_wrongly"]


def merged_wrongly(rules: Json, before: Mapping[int, Record], after: Mapping[int, Record]) -> str | None:
    """`before`: the records of all sources; `after`: those of all outputs."""
    newest: dict[str, int] = {}
    for offset, record in before.items():
        if record.key is not None:
            newest[record.key] = max(offset, newest.get(record.key, -1))
    for offset, record in before.items():
        left = _left(rules, record, superseded=record.key is not None and newest[record.key] > offset)
        found = after.get(offset)
        if found != left:
            return f"{_told(record)} is {_told(found)} after the merge, not {_told(left)} (R3, R4)"
    if after.keys() - before.keys():
        return f"the merge made up offset {min(after.keys() - before.keys())} (R2)"
    return None


def committed_wrongly(
    rules: Json, before: Mapping[int, Record], after: Mapping[int, Record], previous: Json, manifest: Json
) -> str | None:
    """What else the commit of a merge must say: how far the log is clean (R4), and which consumers will never see a
    deletion that it dropped (RFC 0009)."""
    if previous.get("quarantine") is not None:
        return "commits in quarantine (R6)"
    clean = previous.get("cleaned_to", 0)
    if rules["drop_superseded"] and rules.get("stamp_horizon_ms") is not None:
        clean = max(clean, rules["coverage_offset"])
    if manifest.get("cleaned_to", 0) != clean:
        return f"leaves the log clean to {manifest.get('cleaned_to', 0)}, and it is to {clean} (R4)"
    newest = {record.key: offset for offset, record in sorted(before.items())}
    gone = [r for offset, r in before.items() if r.tombstone and offset not in after and offset >= rules["floor"]]
    expired = [r.offset for r in gone if not (rules["drop_superseded"] and newest[r.key] > r.offset)]
    dropped_to = max(expired, default=-1) + 1
    known = {each["name"]: each for each in manifest.get("consumers", ())}
    for each in previous.get("consumers", ()):
        missed_to = each.get("missed_to", 0)
        if each["offset"] < dropped_to:
            missed_to = max(missed_to, dropped_to)
        if known[each["name"]].get("missed_to", 0) != missed_to:
            return f"tells consumer {each['name']} of deletions before {missed_to} otherwise (RFC 0009)"
    return None


def _left(rules: Json, record: Record, *, superseded: bool) -> Record | None:
    """What must be left of a record; None: nothing."""
    if record.offset < rules["floor"]:
        return None
    if rules["drop_keyless"] and record.key is None:
        return None
    if rules["drop_superseded"] and superseded:
        return None
    if record.tombstone and record.horizon_ms is not None and record.horizon_ms <= rules["clock_ms"]:
        return None
    stamps = rules.get("stamp_horizon_ms") is not None and record.offset < rules["coverage_offset"]
    if record.tombstone and record.horizon_ms is None and stamps:
        return record._replace(horizon_ms=rules["stamp_horizon_ms"])
    return record


def _told(record: Record | None) -> str:
    return "gone" if record is None else f"offset {record.offset} (key {record.key}, horizon {record.horizon_ms})"
