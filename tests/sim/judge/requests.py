"""How requests by hand end: done, failed or cancelled, each for a reason that holds (P15, RFC 0003); and what else may
end a job as cancelled."""

from collections.abc import Iterator

from tests.sim.judge.debts import is_old
from tests.sim.judge.homes import elsewhere, given_up, home_of
from tests.sim.judge.layout import Json, live, segments_of, units_of
from tests.sim.judge.plans import InForce
from tests.sim.judge.settings import LARGEST, Settings
from tests.sim.judge.tiers import asked_for

__all__ = ["asked_otherwise", "ended_wrongly"]

RETIRED_MAX = 16_384  # RFC 0005


def ended_wrongly(before: Json, after: Json, known: InForce) -> str | None:
    """`before`: the job as it was when it was under way; `after`: as it stands in the history."""
    planned, status = before.get("plan") is not None, after["status"]
    category = (after.get("error") or {}).get("category", "")
    if known.deleted or any(manifest.get("sealed") for manifest in known.manifests):
        if planned and (status, category) == ("failed", "invalid"):
            return "ends as failed, and its topic was deleted (P21)"
        return None
    if status == "cancelled":
        by = after.get("ended_by")
        asked = by == "request" and before.get("cancel_requested", False)
        holds = asked or (by == "alteration" and category == "altered" and _altered(before, known))
    elif before.get("kind") == "relocate":
        holds = planned or _move_is_refused(before, status, category, known)  # the rest is the ledger's to judge
    elif planned:
        holds = status == "completed" or category != "unavailable" or _lets_go_of_a_home(before, after, known)
    elif status == "completed":
        holds = _nothing_is_old(before, known)
    else:
        holds = _refusal_holds(before, category, known)
    if holds:
        return None
    return f"ends as {status} ({category}: {after.get('reason', '')[:80]}), and that was not so (P15)"


def _lets_go_of_a_home(before: Json, after: Json, known: InForce) -> bool:
    """A merge ends because a home of its sources is away, if it has recorded nothing."""
    held = {*before.get("segments", ())}
    cold = any(home_of(ref) for manifest in known.manifests for ref in segments_of(manifest) if ref["id"] in held)
    return cold and after.get("ended_by") == "home" and not before.get("done")


def _move_is_refused(job: Json, status: str, category: str, known: InForce) -> bool:
    home = job.get("home", "")
    if status == "completed":
        return any(not elsewhere(manifest, home) for manifest in known.manifests)
    if category == "attempts":
        return any(len(elsewhere(manifest, home)) > known.moves_max for manifest in known.manifests)
    if any(_moves_to(each, home) and each["status"] == "failed" for s in known.states for each in s.get("history", ())):
        return True  # a part of it failed
    if category in ("unavailable", "store_denied"):
        return "://" in home  # it is away: the warehouse itself would take no file that says so
    if category != "invalid":
        return False
    held = {name for state in known.states for each in state.get("jobs", ()) for name in each.get("segments", ())}
    return home in known.others or any(each["id"] in held for m in known.manifests for each in elsewhere(m, home))


def _moves_to(job: Json, home: str) -> bool:
    return job.get("kind") == "relocate" and job.get("home", "") == home


def _pairs(known: InForce) -> Iterator[tuple[Json, Settings]]:
    return ((manifest, config) for manifest in known.manifests for config in known.configs)


def _nothing_is_old(job: Json, known: InForce) -> bool:
    requested = job.get("requested", ())
    return any(not asked_for(requested, config, units_of(m), known.since_ms) for m, config in _pairs(known))


def _refusal_holds(job: Json, category: str, known: InForce) -> bool:
    requested = job.get("requested", ())
    match category:
        case "invalid":
            return any(_names_what_is_lost(requested, m, known) for m in known.manifests) or any(
                _mixes_ages(requested, m, config, known) for m, config in _pairs(known)
            )
        case "unavailable":
            return any(len(m.get("retired", ())) + len(live(m)) > RETIRED_MAX for m in known.manifests)
        case "attempts":
            return any(
                len(units_of(m)) > known.inputs_max or _is_sorted_first(requested, m, config, known)
                for m, config in _pairs(known)
            )
        case "corrupt" | "missing":
            return any(m.get("quarantine") is not None for m in known.manifests)
        case _:
            return False


def _names_what_is_lost(requested: list[str], manifest: Json, known: InForce) -> bool:
    """Something is not there, and that is no work of a merge which took nothing but what the request names: such a one
    leaves its run in that place, unless nothing is left at all."""
    asked = frozenset(requested)
    gone = asked - {unit.id for unit in units_of(manifest)}
    took = [known.merged.get(name, frozenset({""})) for name in gone]
    return any(not merged < asked for merged in took)


def _mixes_ages(requested: list[str], manifest: Json, config: Settings, known: InForce) -> bool:
    """Some of the records that were asked for are young, others are not, by some clock."""
    chosen = [unit for unit in units_of(manifest) if unit.id in requested]
    young = [unit for unit in chosen if not is_old(unit, config, known.since_ms)]
    old = [unit for unit in chosen if is_old(unit, config, known.until_ms)]
    return config.compacted and bool(young) and bool(old)


def _is_sorted_first(requested: list[str], manifest: Json, config: Settings, known: InForce) -> bool:
    """What lies in the order of offsets is sorted by key before more than one output of it is merged (RFC 0008)."""
    chosen = asked_for(requested, config, units_of(manifest), known.until_ms)
    unsorted = (each for unit in chosen for each in unit.segments if each.get("order", "key") == "offset")
    return config.compacted and any(unsorted) and sum(unit.bytes for unit in chosen) > config.output_bytes


def _altered(job: Json, known: InForce) -> bool:
    """The topic keeps what the plan drops, or names another cold home than that of a move."""
    if job.get("kind") == "relocate":
        return any(given_up(job.get("home", ""), config) for config in known.configs)
    rules, held = job["plan"]["rules"], set(job["segments"])
    horizon_ms, drops = rules.get("stamp_horizon_ms"), rules["drop_superseded"] or rules["drop_keyless"]
    for manifest, config in _pairs(known):
        units = [u for u in units_of(manifest) if any(each["id"] in held for each in u.segments)]
        at_ms = max(known.since_ms, rules["clock_ms"])
        stays_ms = min(rules["clock_ms"] + config.tombstones_ms, LARGEST - 1)
        if not config.compacted and (drops or horizon_ms is not None):
            return True
        if drops and any(not is_old(unit, config, at_ms) for unit in units):
            return True
        if horizon_ms is not None and horizon_ms < stays_ms:
            return True
    return False


def asked_otherwise(previous: Json, state: Json, known: InForce) -> str | None:
    """What a request names stays, but for sources that a job merged which has just been completed: its run is named
    instead, if there is one, and if all that it merged was asked for; and with it what is left of a run."""
    before = {job["id"]: job for job in previous.get("jobs", ())}
    done = [before[job["id"]] for job in state.get("history", ()) if job["id"] in before and _completed(job)]
    for job in state.get("jobs", ()):
        asked, asks = (one.get("requested", []) for one in (before.get(job["id"], job), job))
        expected = [
            _instead(asked, each, manifest)
            for each in done
            if job["status"] == "submitted"
            for manifest in known.manifests
            if any(one["id"] == each["id"] for one in manifest.get("completed_jobs", ()))
        ]
        if asks not in (expected or [asked]):
            return f"request {job['id']} asks for {asks}, and it asked for {asked} (P15)"
    return None


def _completed(job: Json) -> bool:
    return job["status"] == "completed" and bool(job.get("sources")) and job["kind"] != "relocate"


def _instead(asked: list[str], done: Json, manifest: Json) -> list[str]:
    """`manifest`: one that names its run, and the rest of what it divided."""
    merged, made = set(done["sources"]), any(each["outputs"] for each in done.get("done", ()))
    if not merged <= set(asked):
        return asked
    left = merged & {unit.id for unit in units_of(manifest)}
    names = [
        new
        for name in asked
        for new in ([done["destination"]] * (name in merged) + [name] * (name not in merged or name in left))
    ]
    return [name for name in dict.fromkeys(names) if made or name != done["destination"]] or asked
