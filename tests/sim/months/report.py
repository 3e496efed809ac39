"""What some days came to, as a short table: each figure with the bound that it was held to."""

from collections.abc import Iterator

from tests.sim.months.bounds import BOUNDARY_STEP, GARBAGE_MS, LISTS, ORPHAN_MS, SWEEP_MS
from tests.sim.months.clock import HOUR_MS, MINUTE_MS
from tests.sim.months.history import Found

__all__ = ["USD", "table"]

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
OF_COLLECTION = {
    "retired, and not forgotten": GARBAGE_MS,
    "dead numbers left by a pass": SWEEP_MS,
    "a segment that nothing names": ORPHAN_MS,
}


def table(found: Found) -> str:
    rows = [("", "found", "bound"), *_load(found), *_debts(found), *_files(found), *_garbage(found), *_requests(found)]
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    return "\n".join(f"{a:<{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}".rstrip() for a, b, c in rows)


def _minutes(ms: int) -> str:
    return f"{ms / MINUTE_MS:,.1f} min" if ms < 3 * HOUR_MS else f"{ms / HOUR_MS:,.1f} h"


Row = tuple[str, str, str]
# A request at the list prices of S3 in us-east-1 (docs/metrics.md, `lithify_request_dollars_total`).
USD = dict.fromkeys(("Create", "Put", "List", "Folders"), 5e-6) | dict.fromkeys(("Get", "Head"), 4e-7) | {"Delete": 0.0}


def _load(found: Found) -> Iterator[Row]:
    site, counts = found.site, found.counts
    yield f"{found.days:g} days from seed {found.seed}", found.violation or "no violation", ""
    yield "appends", f"{counts['append']:,} of {site.bytes_appended / GIB:,.0f} GiB", ""
    amplification = 1 + site.bytes_compacted / max(site.bytes_appended, 1)
    yield "written by compactions", f"{site.bytes_compacted / GIB:,.0f} GiB (amplification {amplification:.1f})", ""
    yield "longest job", _minutes(found.ledger.longest_job_ms), ""
    comings = f"{site.daemons_begun} begun, {counts['compactor killed']} killed, {counts['compactor stopped']} stopped"
    yield "compactors", comings, ""
    yield "claims of partitions", f"{sum(each.claims for each in found.ledger.partitions.values()):,}", ""
    yield "outages, alters", f"{counts['outage']}, {counts['alter']}", ""
    yield "pins with, without a time to live", f"{counts['pin']}, {counts['pin without ttl']}", ""
    yield "appends refused at the limit", f"{counts['append refused at the limit']}", ""


def _debts(found: Found) -> Iterator[Row]:
    debts = found.debts
    for name, age_ms in sorted(debts.oldest.items()):
        yield f"oldest debt: {name}", _minutes(age_ms), _minutes(debts.bounds[name])
    for what, most in sorted(debts.most.items()):
        yield f"most {what} of a partition", f"{most}", ""


def _files(found: Found) -> Iterator[Row]:
    ledger, site = found.ledger, found.site
    for (kind, name), length in sorted(ledger.longest.items()):
        yield f".{kind} {name}", f"{length:,}", f"{LISTS[kind, name]:,}"
    for kind, size in sorted(ledger.largest.items()):
        written = ledger.written[kind]
        yield f".{kind}: files, largest", f"{ledger.files[kind]:,}, {size / KIB:,.0f} KiB", ""
        yield f".{kind}: bytes written", f"{written / MIB:,.0f} MiB", ""
    total = sum(ledger.written.values())
    per_append = total / max(found.counts["append"], 1)
    yield "numbered bytes per append", f"{per_append / KIB:,.1f} KiB", ""
    yield "numbered bytes per appended byte", f"{total / max(site.bytes_appended, 1):.6f}", ""
    left = sum(len(ledger.left(each)) for each in ledger.partitions.values())
    yield "numbered files left", f"{left:,}", ""


def _garbage(found: Found) -> Iterator[Row]:
    rubbish = found.rubbish
    for what, age_ms in sorted(rubbish.oldest.items()):
        bound_ms = OF_COLLECTION.get(what)
        yield f"longest: {what}", _minutes(age_ms), "" if bound_ms is None else _minutes(bound_ms)
    yield "most numbers that wait for a boundary", f"{rubbish.most_numbers}", f"{BOUNDARY_STEP}"
    yield "segments that nothing named, collected", f"{len(rubbish.orphans_seen)}", ""


def _requests(found: Found) -> Iterator[Row]:
    asked = found.site.bucket.requests
    for role in sorted({role for role, _ in asked}):
        parts = {kind: count for (other, kind), count in asked.items() if other == role}
        told = ", ".join(f"{count / found.days_played:,.0f} {kind}" for kind, count in sorted(parts.items()))
        yield f"requests a day of {role}", f"{sum(parts.values()) / found.days_played:,.0f}", told
        dollars = sum(count * USD[kind] for kind, count in parts.items()) / found.days_played
        yield f"dollars a day of {role}", f"{dollars:,.2f}", ""
