"""Which segments belong to a cold home, what a relocation may take, and what its commit may change (RFC 0031)."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from tests.sim.judge.layout import Json, segments_of, units_of
from tests.sim.judge.settings import Settings

__all__ = [
    "HOMES_MAX",
    "MOVES_MAX",
    "admitted_wrongly",
    "elsewhere",
    "forgotten_too_late",
    "given_up",
    "home_of",
    "left_elsewhere",
    "moved_late",
    "moved_wrongly",
    "owes_cold",
    "too_dear",
]

HOMES_MAX = 8
MOVES_MAX = 64
DAY_MS = 86_400_000
COPY = frozenset(("id", "store", "added_at", "moved_ms"))  # in which a copy differs from what it was copied from
COMMIT = frozenset(("lists", "retired_lists", "format")) | frozenset(
    ("id", "nonce", "committed_at_ms", "boundary_seen", "file_xxh3", "runs", "retired", "completed_jobs")
)


def home_of(ref: Json) -> str:
    return ref.get("store", "")


def _in_runs(manifest: Json) -> list[Json]:
    return [each for run in manifest.get("runs", ()) for each in run["segments"]]


def _age(config: Settings, segment: Json) -> tuple[int, int]:
    """Of two, the one with the smaller is older."""
    ages = segment["max_ts_ms"], segment["max_offset"]
    return ages if config.compacted else ages[::-1]


def _cold(manifest: Json, config: Settings, now_ms: int) -> list[Json]:
    """The segments of runs that belong to the cold home, oldest first. What stays fits into local.retention.bytes."""
    newest = sorted(segments_of(manifest), key=lambda each: _age(config, each), reverse=True)
    found: list[Json] = []
    for at, each in enumerate(newest):
        old = 0 <= config.local_ms < now_ms - each["max_ts_ms"]
        beyond = 0 <= config.local_bytes < sum(one["bytes"] for one in newest[: at + 1])
        if at >= config.hot_segments and (old or beyond):
            found.insert(0, each)
    inside = {each["id"] for each in _in_runs(manifest)}
    return [each for each in found if each["id"] in inside]


def owes_cold(manifest: Json, config: Settings, now_ms: int, homes_max: int) -> Iterator[str]:
    noted = manifest.get("homes", ())
    if not config.cold_home or (config.cold_home not in noted and len(noted) >= homes_max):
        return
    for each in _cold(manifest, config, now_ms):
        if home_of(each) != config.cold_home:
            yield f"segment {each['id']} lies in {home_of(each)!r}, and belongs to {config.cold_home} (RFC 0031)"


def too_dear(sources: Iterable[Json], dirty: int, config: Settings, now_ms: int) -> bool:
    """Whether a clean for the dirty ratio waits: it takes from GLACIER_IR, the one class here that is paid by what is
    read and for 90 days at least, more than its dirty bytes cost in 90 days of STANDARD."""
    price = 0.0
    for each in sources:
        if home_of(each) == "class:GLACIER_IR":
            moved_ms = each.get("moved_ms") or each["max_ts_ms"] + max(config.local_ms, 0)
            left_ms = 90 * DAY_MS - max(now_ms - moved_ms, 0)
            price += each["bytes"] * (0.03 + 0.004 * max(left_ms, 0) / (30 * DAY_MS))
    return price > dirty * 3 * 0.023


def elsewhere(manifest: Json, home: str) -> list[Json]:
    """What a request to move everything to `home` is about."""
    found = [each for each in _in_runs(manifest) if home_of(each) != home]
    return sorted(found, key=lambda each: each["max_offset"])


def admitted_wrongly(
    job: Json, manifest: Json, config: Settings, held: Collection[str], requests: Iterable[str], moves_max: int
) -> Iterator[str]:
    """`held`: the segments of other jobs; `requests`: where those that wait ask that everything be moved."""
    home, clock_ms = job.get("home", ""), job["plan"]["rules"]["clock_ms"]
    by_name = {each["id"]: each for each in segments_of(manifest)}
    taken = [by_name.get(name) for name in job["segments"]]
    if None in taken:
        yield "moves what is not live (P8)"
    if len(job["plan"]["ranges"]) != len(taken) or not taken:
        yield "has other ranges than segments (P9)"
    if {*job["sources"]} != {u.id for u in units_of(manifest) if any(each in taken for each in u.segments)}:
        yield "names other sources than it moves segments of (P8)"
    if given_up(home, config):
        yield f"moves to {home}, and the topic names {config.cold_home or 'no cold home'} (RFC 0031)"
    asked = elsewhere(manifest, home)
    if job["origin"] == "manual":
        if taken != asked or len(taken) > moves_max:
            yield "moves other than all that is elsewhere (P15)"
        return
    due = [each for each in _cold(manifest, config, clock_ms) if home_of(each) != home and each["id"] not in held]
    wanted: Sequence[Sequence[Json]] = [due] if home == config.cold_home else []
    wanted = [*wanted, *(asked for each in requests if each == home and len(asked) > moves_max)]
    if not any(taken == each[:moves_max] for each in wanted):
        yield f"moves {job['segments']} to {home!r}, and what is due there is {[e['id'] for e in due]} (RFC 0031)"


def given_up(home: str, config: Settings) -> bool:
    return home not in ("", config.cold_home)


def moved_late(job: Json, previous: Json, configs: Iterable[Settings]) -> str | None:
    """Of the commit of a relocation. `configs`: those that its compactor may go by."""
    home, first = job.get("home", ""), previous.get("config_at", 0)
    if any(config.version >= first and not given_up(home, config) for config in configs):
        return None
    return f"moves segments to {home}, which the topic had given up by version {first} (P9)"


def left_elsewhere(head: Json, since: int, configs: Iterable[Settings]) -> str | None:
    """At rest, after everything was recalled: `since`, the version of the configuration that the manifest went by
    then. `configs`: of the topic, all of them."""
    there = [each["id"] for each in segments_of(head) if home_of(each)]
    if not there or any(config.cold_home for config in configs if config.version >= since):
        return None
    return f"{there[0]} is not in the warehouse, and was recalled from a home that is given up (RFC 0031)"


def moved_wrongly(job: Json, previous: Json, manifest: Json) -> str | None:
    """Of the commit of a relocation. All stays where it was, but that what it held has another id and home."""
    changed = {name for name in previous.keys() | manifest.keys() if previous.get(name) != manifest.get(name)}
    if changed - COMMIT:
        return f"changes {min(changed - COMMIT)}, too (P13)"
    outputs = {done["index"]: done["outputs"] for done in job.get("done", ())}
    copies = {name: outputs[at][0]["id"] for at, name in enumerate(job["segments"]) if len(outputs.get(at, ())) == 1}
    was, now = ([run["id"] for run in one.get("runs", ())] for one in (previous, manifest))
    before, after = (_in_runs(one) for one in (previous, manifest))
    counts = [[len(run["segments"]) for run in one.get("runs", ())] for one in (previous, manifest)]
    if was != now or counts[0] != counts[1]:
        return "changes the runs (P13)"
    for old, new in zip(before, after, strict=True):
        if old["id"] not in copies:
            if new != old:
                return f"changes {old['id']}, which it does not hold (P8)"
            continue
        if new["id"] != copies[old["id"]] or new["id"] == old["id"]:
            return f"has {new['id']} in place of {old['id']}, whose copy is {copies[old['id']]} (P21)"
        if home_of(new) != job.get("home", "") or new["added_at"] != manifest["id"]:
            return (
                f"says that {new['id']} is in {home_of(new)!r}, and it was moved to {job.get('home', '')!r} (RFC 0031)"
            )
        moved_ms = manifest["committed_at_ms"] if home_of(new) else 0
        if new.get("moved_ms", 0) != moved_ms:
            return f"says that {new['id']} was moved at {new.get('moved_ms', 0)}, and it was at {moved_ms} (RFC 0031)"
        differing = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} - COPY
        if differing:
            return f"changes {min(differing)} of {old['id']} (P13)"
    if set(copies) != set(job["segments"]) or not set(copies) <= {each["id"] for each in before}:
        return "commits other than one copy of each segment of a run that it holds (P8, P13)"
    return None


def forgotten_too_late(head: Json, history: Iterable[Json], places: Collection[str]) -> str | None:
    """A home that is still noted at rest, and nothing is there, and nothing names it. `places`: where objects are."""
    named = {home_of(each) for each in (*segments_of(head), *head.get("retired", ()))}
    waits = {job.get("home") for job in history if job["status"] != "completed"}
    for home in head.get("homes", ()):
        if home not in named and home not in waits and home not in places:
            return f"home {home} is noted, and was swept empty (P18)"
    return None
