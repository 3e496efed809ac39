"""One partition, as its stored files tell of it: each new one is held against those before it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.sim.judge.chains import broken
from tests.sim.judge.floors import log_start, misdated, stored_wrongly
from tests.sim.judge.groups import appended_wrongly
from tests.sim.judge.homes import MOVES_MAX, moved_late, moved_wrongly
from tests.sim.judge.layout import Json, load, segments_of, units_of
from tests.sim.judge.leases import claimed_wrongly, left_wrongly
from tests.sim.judge.merges import committed_wrongly, merged_wrongly
from tests.sim.judge.owners import BOUNDS, let_go_by_another
from tests.sim.judge.pins import let_go_wrongly, pinned_wrongly
from tests.sim.judge.plans import InForce, planned_wrongly
from tests.sim.judge.records import Records
from tests.sim.judge.requests import asked_otherwise, ended_wrongly
from tests.sim.judge.settings import Settings
from tests.sim.judge.tiers import INPUTS_MAX
from tests.sim.judge.uploads import AT_MOST, AtMost, uploaded_wrongly

__all__ = ["Asker", "Partition"]


class Asker(NamedTuple):
    """Whose file it is, and what is known of him: when his step began, which configurations he may go by, whether he
    was told to take over, or to mind no pause; and how long he asked checkpoints to last."""

    author: object
    began_ms: int = 0
    since_ms: int = 0  # by any clock that he may have read, to `until_ms`
    until_ms: int = 0
    configs: Sequence[Settings] = ()
    may_take_over: bool = True
    paused: bool | None = None  # as he was told; None: as the configuration says
    lifetimes_ms: Collection[int | None] = ()
    deleted: bool = False  # the topic
    inputs_max: int = INPUTS_MAX
    who: object = None  # of whom `author` is one life
    bounds: Mapping[str, int] = BOUNDS  # of the pins of each owner
    uploads_max: AtMost = AT_MOST
    moves_max: int = MOVES_MAX
    others: Collection[str] = ()  # homes that are another warehouse's


class Partition:
    def __init__(self) -> None:
        self.records = Records()
        self.heads: list[tuple[int, Json]] = []  # with the time at which each became it
        self.states: list[tuple[int, Json]] = []  # `.compactor` files
        self.boundary: Json | None = None
        self._merged_with: dict[str, tuple[str, frozenset[str]]] = {}  # what is no more -> its merge, all it took
        self._jobs_seen: dict[str, int] = {}  # a job -> the first `.compactor` file that names it
        self._jobs_ended: dict[str, int] = {}  # a job -> the first that says how it ended
        self._owners: dict[str, object] = {}  # a claim's nonce -> whose it was
        self._pinned_by: dict[str, object] = {}  # a checkpoint's id -> who made it

    @property
    def head(self) -> Json:
        return self.heads[-1][1]

    @property
    def state(self) -> Json:
        return self.states[-1][1] if self.states else {}

    def manifest(self, number: int) -> Json | None:
        first = self.heads[0][1]["id"]
        return self.heads[number - first][1] if first <= number < first + len(self.heads) else None

    def created(self, asker: Asker, chain: str, number: int, body: bytes, now_ms: int) -> Iterator[str]:
        """What is wrong with a file that was just created. One on a dead number is none."""
        if chain == "boundary":
            self.boundary = load(body)
            return
        if number <= (self.boundary or {}).get(chain, 0):
            return
        if chain == "manifest":
            previous = self.heads[-1][1] if self.heads else None
            self.heads.append((now_ms, load(body)))
            yield from self._names_a_boundary(previous or {}, self.head)
            if previous is not None:
                yield from self._manifest(asker, previous, self.head)
        else:
            previous = self.state
            self.states.append((now_ms, load(body)))
            yield from self._names_a_boundary(previous, self.state)
            yield from self._compactor(asker, previous, self.state)

    def _names_a_boundary(self, previous: Json, file: Json) -> Iterator[str]:
        """A search for the newest begins there (RFC 0034)."""
        before, named = previous.get("boundary_seen", 0), file.get("boundary_seen", 0)
        newest = (self.boundary or {}).get("id", 0)
        if not before <= named <= newest:
            yield f"{file['kind']} {file['id']} names boundary {named}, after {before}; the newest is {newest} (P3)"

    def seen_wrongly(self, number: int, now_ms: int, floor: int) -> str | None:
        """A reader of a manifest reckoned by its clock that the log starts at `floor` (R3)."""
        manifest = self.manifest(number)
        if manifest is None or log_start(manifest, now_ms) == floor:
            return None
        return f"a reader sees manifest {number} start at {floor}, and it is {log_start(manifest, now_ms)} (R3)"

    def _in_force(self, asker: Asker) -> InForce:
        heads, states = _since(self.heads, asker.began_ms), _since(self.states, asker.began_ms)[:-1]
        times = asker.since_ms, asker.until_ms
        known = InForce(heads, asker.configs, *times, asker.deleted, states, asker.inputs_max)
        return known._replace(moves_max=asker.moves_max, others=asker.others)

    def _merged_while_asked(self, request: str) -> dict[str, frozenset[str]]:
        """By source: all that its merge took. Only of merges whose end was recorded while `request` waited: an end
        leaves the run in place of its sources in what waits, and whoever asks later for what is no more gets nothing.
        """
        asked, never = self._jobs_seen[request], len(self.states)
        return {
            name: took for name, (job, took) in self._merged_with.items() if asked < self._jobs_ended.get(job, never)
        }

    def _manifest(self, asker: Asker, previous: Json, manifest: Json) -> Iterator[str]:
        number = manifest["id"]
        if manifest["committed_at_ms"] > asker.until_ms:
            yield f"manifest {number} is dated {manifest['committed_at_ms']}, it is {asker.until_ms} at most"
        known = {each["id"] for each in segments_of(previous)}
        for ref in manifest.get("l0", ()):
            if ref["id"] not in known:
                self.records.appended(ref)
        yield from broken(previous, manifest, self.records)
        jobs = {each["id"] for each in previous.get("completed_jobs", ())}
        done = next((each["id"] for each in manifest.get("completed_jobs", ()) if each["id"] not in jobs), None)
        job = next((each for each in self.state.get("jobs", ()) if each["id"] == done), None)
        moves = job is not None and job["kind"] == "relocate"
        floor = None if job is None else job["plan"]["rules"]["floor"]
        yield from _one(stored_wrongly(previous, manifest, floor, moves=moves))
        yield from _one(pinned_wrongly(previous, manifest, asker.lifetimes_ms))
        yield from _one(let_go_by_another(previous, manifest, self._pinned_by, asker.who, asker.bounds))
        for each in manifest.get("checkpoints", ()):
            self._pinned_by.setdefault(each["id"], asker.who)
        yield from _one(uploaded_wrongly(previous, manifest, asker.lifetimes_ms, asker.uploads_max))
        yield from _one(appended_wrongly(previous, manifest, asker.configs))
        yield from _one(let_go_wrongly(previous, manifest, self.manifest))
        if job is not None and moves:
            wrong = moved_wrongly(job, previous, manifest) or moved_late(job, previous, asker.configs)
            yield from _one(wrong and f"job {job['id']} {wrong}")
        elif job is not None:
            yield from self._merged(job, previous, manifest)
        there = {record.offset: record.timestamp_ms for ref in segments_of(manifest) for record in self.records.of(ref)}
        yield from _one(
            misdated(manifest, self.records.ever, lambda first, end: (there[o] for o in there if first <= o < end))
        )
        claims = manifest.get("compactor_epoch", 0) > previous.get("compactor_epoch", 0)
        if claims and not asker.may_take_over:
            states = _since(self.states, asker.began_ms)
            there_were = bool(self.states) and self.states[0][0] < asker.began_ms
            if there_were and all(self._owners.get(state.get("owner", "")) != asker.author for state in states):
                yield from _one(claimed_wrongly(states, asker.since_ms, asker.until_ms))

    def _merged(self, job: Json, previous: Json, manifest: Json) -> Iterator[str]:
        left = {unit.id for unit in units_of(manifest)}
        self._merged_with |= dict.fromkeys({*job["sources"]} - left, (job["id"], frozenset(job["sources"])))
        was, now = ({each["id"]: each for each in segments_of(one)} for one in (previous, manifest))
        before = self.records.of_all(ref for name, ref in was.items() if name not in now)
        after = self.records.of_all(ref for name, ref in now.items() if name not in was)
        rules = job["plan"]["rules"]
        wrong = merged_wrongly(rules, before, after) or committed_wrongly(rules, before, after, previous, manifest)
        yield from _one(wrong and f"job {job['id']}: {wrong}")

    def _compactor(self, asker: Asker, previous: Json, state: Json) -> Iterator[str]:
        owner = state.get("owner", "")
        by_owner = self._owners.get(previous.get("owner", "")) == asker.author
        yield from _one(left_wrongly(previous, state, by_owner=by_owner))
        if owner and owner != previous.get("owner", ""):
            self._owners[owner] = asker.author
        for seen, jobs in ((self._jobs_seen, "jobs"), (self._jobs_ended, "history")):
            for job in state.get(jobs, ()):
                seen.setdefault(job["id"], len(self.states) - 1)
        before = {job["id"]: job for job in previous.get("jobs", ())}
        known = self._in_force(asker)
        for job in state.get("jobs", ()):
            was = before.get(job["id"], {})
            if job.get("plan") is not None and was.get("plan") is None:
                wrong = planned_wrongly(job, known, paused=asker.paused)
                yield from _one(wrong and f"job {job['id']} {wrong}")
            if _latest_attempt(job) > _latest_attempt(was):
                yield from _one(_begins_wrongly(job, known, paused=asker.paused))
        yield from _one(asked_otherwise(previous, state, known))
        ended = {job["id"]: job for job in state.get("history", ()) if job["id"] in before}
        for name, job in ended.items():
            wrong = ended_wrongly(before[name], job, known._replace(merged=self._merged_while_asked(name)))
            yield from _one(wrong and f"job {name} {wrong}")


def _since(files: Sequence[tuple[int, Json]], since_ms: int) -> list[Json]:
    """Those that were the newest at some time since then."""
    found: list[Json] = []
    for created_ms, each in reversed(files):
        found.append(each)
        if created_ms < since_ms:
            break
    return found[::-1]


def _one(wrong: str | None) -> Iterator[str]:
    if wrong:
        yield wrong


def _latest_attempt(job: Json) -> int:
    return max((each["number"] for each in job.get("attempts", ())), default=0)


def _begins_wrongly(job: Json, known: InForce, *, paused: bool | None) -> str | None:
    """Whether an attempt begins where compaction is stopped: paused, or quarantined."""
    if paused or (paused is None and known.configs and all(config.paused for config in known.configs)):
        return f"an attempt at job {job['id']} begins, and compaction is paused (RFC 0008)"
    if known.manifests and all(manifest.get("quarantine") is not None for manifest in known.manifests):
        return f"an attempt at job {job['id']} begins in quarantine (R6)"
    return None
