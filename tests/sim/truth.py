"""What is true of one partition, taken from its objects as they come and go, and the rules they must keep. An actor's
word is never taken for anything but what it was told."""

from collections.abc import Callable

import msgspec

from lithify.manifest.jobs import Job
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import Manifest, SegmentRef, TopicFile
from tests.sim.applications import Applications
from tests.sim.cast import Author, process_of
from tests.sim.contents import Contents, Reign
from tests.sim.followed import Followed
from tests.sim.frames import Step, counted_as, kind_of_commit, unwarranted
from tests.sim.housed import Housed
from tests.sim.judge.floors import bounds_of, log_start
from tests.sim.judge.partition import Partition
from tests.sim.judge.settings import Settings, settings
from tests.sim.judge.uploads import protected
from tests.sim.judged import Readings, kept_by_all
from tests.sim.ledger import Ledger
from tests.sim.rows import decode
from tests.sim.standing import Standing
from tests.sim.states import no_state
from tests.sim.world import World

__all__ = ["Truth"]

_manifest = msgspec.json.Decoder(Manifest).decode

UNCOUNTED = (
    "floor",
    "position",
    "producer",
    "transaction",
    "upload",
)  # kinds of commit that no check of their own counts


class Truth(Standing):
    def __init__(
        self,
        keys: PartitionKeys,
        world: World,
        grace_ms: int,
        error_ms: int,
        configs: list[Settings],
        topics: list[TopicFile],
        judged: Partition,
    ) -> None:
        super().__init__(keys, world, grace_ms, error_ms)
        self.contents = Contents()
        self.ledger = Ledger(self)
        self.followed = Followed()
        self.readings = Readings()
        self.housed = Housed(keys, world.store)
        self.refused: set[str] = set()  # tokens of records that were said not to be appended
        self.configs = configs  # of the topic, one after the other
        self._topics = topics  # by number, those of other topic ids, too
        self._judged = judged  # the same files, by the written rules
        self._reigns: list[Reign] = []  # of the bounds that were in force, the latest of them included
        self._named: dict[str, list[int]] = {}  # segment id -> [named from manifest, up to before]
        self._claimed: dict[int, Author] = {}  # who committed which epoch
        self.applications = Applications(world.counts)
        self._compacted = False
        self._counted = True  # no commit so far holds what a worker of an earlier release did

    @property
    def quarantined(self) -> bool:
        return self.head is not None and self.head.quarantine is not None

    def restored(self, segment_id: str) -> None:
        self.readings.restored((segment_id,), self.world.steps)
        self.harms.end(segment_id, self.world.steps)

    def segment_put(self, key: str, body: bytes, home: str = "") -> None:
        segment_id = self.keys.segment_id(key)
        if home:
            self._refuse(self.housed.uncovered(home, self.head, self.ledger.state), f"{segment_id} is uploaded, and ")
        if segment_id is not None and segment_id not in self.contents.stored:
            self.contents.stored[segment_id] = decode(body)

    def segment_deleting(self, segment_id: str) -> None:
        named = self._named.get(segment_id)
        self.harms.end(segment_id, self.world.steps)
        if named is not None:
            first, end = named
            if end == 0:
                self.fail(f"live segment {segment_id} is deleted (P16)")
            if end - 1 > self.dead:
                self.fail(f"segment {segment_id} is deleted, manifest {end - 1} names it and is retained (P16, P17)")
            pins = self.pins()
            pinned = [pin for pin in pins if first <= pin < end]
            if pinned:
                self.fail(f"segment {segment_id} is deleted, pinned manifest {pinned[0]} names it (P19, P20)")
            self.world.held("P16", "P17", *(("P19", "P20") if pins else ()))
            return
        if self.head is not None and self.head.uploads:
            self._refuse(protected(self._judged.head, segment_id))
            self.world.held("P22")
        state, sealed = self.ledger.state, self.head is not None and self.head.sealed
        if state is not None and not sealed and any(SegmentId.of_job(segment_id, job.id) for job in state.jobs):
            self.fail(f"segment {segment_id} of an active job is deleted (P10, P18)")
        self.world.held("P18", *(("P10",) if state is not None and state.jobs else ()))

    def manifest_created(self, author: Author, number: int, body: bytes) -> None:
        if number <= self.dead:
            self.world.counts["commit on a dead number"] += 1
            return
        previous, manifest = self.head, _manifest(body)
        if number != (0 if previous is None else previous.id) + 1:
            self.fail(f"manifest {number} comes after {previous and previous.id} (P3, P4)")
        self.world.held("P2", "P3", "P4")
        self._refuse(self.followed.manifest(previous, manifest), f"manifest {number}: ")
        self.head = self._lineage[number] = manifest
        self._created_ms[number] = self.world.now_ms
        if previous is not None:
            self._judge(author, previous, manifest)

    def _judge(self, author: Author, previous: Manifest, manifest: Manifest) -> None:
        number = manifest.id
        self._frame(previous, manifest)
        was = {ref.id: ref for ref in previous.segments()}
        live = {ref.id: ref for ref in manifest.segments()}
        added = [ref for segment_id, ref in live.items() if segment_id not in was]
        taken = [ref for segment_id, ref in was.items() if segment_id not in live]
        if manifest.compactor_epoch > previous.compactor_epoch:
            self._claimed[manifest.compactor_epoch] = process_of(author)
            self._count("claim")
        for ref in added:
            if not self.present(ref.id):
                self.fail(f"manifest {number} names {ref.id}, which is not there (P7, P10)")
            self._named[ref.id] = [number, 0]
            self._refuse(self.housed.elsewhere(ref), f"manifest {number} ")
        for ref in taken:
            self._named[ref.id][1] = number
        self._refuse(self.housed.retired_wrongly(previous, manifest), f"manifest {number} ")
        self._refuse(self.housed.all_covered(manifest, self.ledger.state), f"with manifest {number} ")
        l0 = [ref for ref in added if ref.base_offset is not None]
        if added:
            self.world.held("P7" if l0 else "P10")
        self._refuse(self.applications.judge(previous, manifest, self.configs), f"manifest {number}: ")
        for ref in l0:
            self._appended(ref, self.applications.anew_to(previous, manifest))
        if taken and not manifest.sealed:
            self._compaction(author, previous, manifest, [ref for ref in added if ref.base_offset is None], taken)
        if manifest.quarantine is not None and previous.quarantine is None:
            self._quarantine(author, manifest)
        self._forgotten(previous, manifest)
        self._floor(previous, manifest)
        self._checkpoints(previous, manifest)
        moved = bool(taken) or manifest.log_start_offset != previous.log_start_offset
        if moved and not manifest.sealed:
            self._same_contents(manifest)
        if manifest.sealed and not previous.sealed:
            self._count("seal")

    def _frame(self, previous: Manifest, manifest: Manifest) -> None:
        jobs = () if self.ledger.state is None else self.ledger.state.jobs
        fresh = {done.id for done in manifest.completed_jobs} - {done.id for done in previous.completed_jobs}
        moves = any(job.relocates for job in jobs if job.id in fresh)
        step = Step(previous, manifest, self.dead, frozenset(job.id for job in jobs), moves)
        kind = kind_of_commit(step)
        wrong = unwarranted(step, kind)
        if wrong is not None:
            self.fail(f"{wrong} (P2)")
        if kind in UNCOUNTED:
            self._count(counted_as(step, kind))
        if "uploads" in step.changed:
            self.world.held("P22")

    def _appended(self, ref: SegmentRef, anew_to: int) -> None:
        self._count("append")
        self._refuse(self.contents.place(ref, anew_to))
        denied = [row.token for row in self.contents.stored[ref.id] if row.token in self.refused]
        if denied:
            self.fail(f"record {denied[0]} was said not to be appended, and is (P1, P4, P7)")
        self.world.held("P6", "R2", *(("P1",) if self.refused else ()))

    def _same_contents(self, manifest: Manifest) -> None:
        self._compacted = self._compacted or any(config.compacted for config in self.configs)
        self._refuse(self.contents.differences(manifest, self._compacted), f"manifest {manifest.id}: ")
        self._refuse(no_state(manifest, self.contents), f"manifest {manifest.id}: ")
        self.world.held("R1", "R2", "R4")

    def _compaction(
        self, author: Author, previous: Manifest, manifest: Manifest, made: list[SegmentRef], taken: list[SegmentRef]
    ) -> None:
        if self._claimed.get(manifest.compactor_epoch) != process_of(author):
            self.fail(f"{author} commits at epoch {manifest.compactor_epoch}, which is not its own (P5)")
        known = {done.id for done in previous.completed_jobs}
        active = {job.id for job in (self.ledger.state.jobs if self.ledger.state else ())}
        if unended := active & (known - {done.id for done in manifest.completed_jobs}):
            self.fail(f"manifest {manifest.id} forgets {min(unended)}, which .compactor shows as under way (P13)")
        fresh = [done.id for done in manifest.completed_jobs if done.id not in known]
        if not fresh:
            if any(ref.max_offset >= manifest.log_start_offset for ref in taken):
                self.fail(f"manifest {manifest.id} drops a segment that reaches above the floor (R3)")
            held = {
                s for job in (self.ledger.state.jobs if self.ledger.state else ()) if job.plan for s in job.segments
            }
            if any(ref.id in held for ref in taken):
                self.fail(f"manifest {manifest.id} drops a segment that an active job holds (P8, R3)")
            self._count("drop")
            self.world.held("P5", "P8", "R3")
            return
        job = None if self.ledger.state is None else self.ledger.state.job(fresh[0])
        if job is None or job.plan is None:
            self.fail(f"job {fresh[0]} commits, and no .compactor file knows its plan (P10)")
        if fresh[0] in self.ledger.committed:
            self.fail(f"job {job.id} commits twice (P13)")
        self.ledger.committed.add(job.id)
        self._count(f"{job.kind}")
        if {ref.id for ref in taken} != set(job.segments):
            self.fail(f"job {job.id} takes other segments than it held (P8)")
        recorded = {ref.id for ref in job.outputs()}
        if recorded != {ref.id for ref in made} or len(job.done) != len(job.plan.ranges):
            self.fail(f"job {job.id} commits outputs that are not recorded (P11)")
        self.ledger.commits(author, job.id, made)
        if job.relocates:
            self._relocation(job, {ref.id: ref for ref in made}, {ref.id: ref for ref in taken})
        else:
            self._merge(job, previous, manifest, made, taken)

    def _merge(
        self, job: Job, previous: Manifest, manifest: Manifest, made: list[SegmentRef], taken: list[SegmentRef]
    ) -> None:
        assert job.plan is not None
        if any(done.counts.rows_in and not done.kept_bytes for done in job.done):
            self._counted = False
            self.world.counts["bytes were not counted"] += 1
        if any(ref.home for ref in made):
            self.fail(f"job {job.id} merges into another home than the warehouse (RFC 0031)")
        ours = {ref.id for ref in made}
        others = [ref for ref in manifest.segments() if ref.id not in ours]
        now_ms = self.world.now_ms + self.error_ms
        wrong = self.contents.merged_wrongly(taken, made, manifest, job.kind, now_ms)
        wrong = wrong or self.contents.cut_wrongly(made, max(config.output_bytes for config in self.configs))
        since = self._topics[max(previous.config_at, 1) - 1 :]
        wrong = wrong or kept_by_all(self.contents, job.plan.rules, taken, made, manifest, since, now_ms)
        self._refuse(wrong, f"job {job.id}: ")
        if manifest.cleaned_to > previous.cleaned_to and any(ref.min_offset < manifest.cleaned_to for ref in others):
            self.fail(f"cleaned_to is {manifest.cleaned_to}, and a segment left out begins below (P9, R4)")
        self.world.held("P5", "P8", "P11", "P13", "R4", "R5", *(("P9",) if job.kind == "clean" else ()))

    def _relocation(self, job: Job, made: dict[str, SegmentRef], taken: dict[str, SegmentRef]) -> None:
        """What else its commit may change, the judge says."""
        for done in job.done:
            copy, source = made[done.outputs[0].id], taken[job.segments[done.index]]
            if self.contents.stored[copy.id] != self.contents.stored[source.id] or copy.checksum != source.checksum:
                self.fail(f"{copy.id} does not hold what {source.id} does, and takes its place (P21)")
            if source.base_offset is not None:
                self.fail(f"L0 segment {source.id} is moved (RFC 0031)")
        self.world.counts["segment relocated" if job.home else "segment recalled"] += len(made)
        self.world.held("P5", "P8", "P11", "P13", "P18", "P21")

    def _quarantine(self, author: Author, manifest: Manifest) -> None:
        self._count("quarantine")
        self.ledger.quarantined = True
        assert manifest.quarantine is not None
        if self._claimed.get(manifest.compactor_epoch) != process_of(author):
            self.fail(f"{author} quarantines at epoch {manifest.compactor_epoch}, which is not its own (P5, R6)")
        segment_id = manifest.quarantine.segment
        if segment_id not in self.harms.ever:
            self.fail(f"quarantined for {manifest.quarantine}, which nobody damaged (P16, R6)")
        whole = segment_id not in self.harms.now and self.present(segment_id)
        if whole and self.readings.all_of_whole(author, segment_id):
            self.fail(f"quarantined for {segment_id}, which was whole ever since {author} began to read (R6)")
        self.world.held("P5", "P16", "R6")

    def _forgotten(self, previous: Manifest, manifest: Manifest) -> None:
        left, pins = {r.id for r in manifest.retired}, [c.manifest for c in manifest.checkpoints]
        for retired in previous.retired:
            if retired.id in left or self.keys.segment(retired.id) not in self.world.objects:
                continue
            if not any(retired.added_at <= pin < retired.retired_at for pin in pins):
                self.fail(f"{retired.id} is forgotten, its bytes are not (P16)")
            if retired.retired_at > self.dead:
                self.fail(f"{retired.id} is handed over to a checkpoint before its grace period has passed (P16)")
            self.world.counts["handed over to a checkpoint"] += 1
        for number in {*previous.unpinned} - {*manifest.unpinned}:
            self._looked_at(number, manifest)
        if len(left) < len(previous.retired):
            self._count("collect")
            self.world.held("P16")

    def _looked_at(self, number: int, manifest: Manifest) -> None:
        """What only manifest `number` named is gone, unless a sweep took the file first: it takes the rest, too."""
        if self.keys.manifest.key(number) not in self.world.objects:
            return
        others = [manifest, *(self._lineage[n] for n in (*self.pins(), *manifest.unpinned))]
        named = {ref.id for each in others for ref in (*each.segments(), *each.retired)}
        for ref in self._lineage[number].segments():
            if ref.id not in named and self.keys.segment(ref.id) in self.world.objects:
                self.fail(f"{ref.id} is left behind: only manifest {number} named it, which nobody pins any more (P16)")
        self.world.counts["looked at what a checkpoint kept"] += 1

    def _floor(self, previous: Manifest, manifest: Manifest) -> None:
        """A floor is early over no record. Under every manifest the log starts where readers of the one before saw it
        start, or later."""
        now_ms = self.world.now_ms + self.error_ms
        (_, was), (_, head) = self._judged.heads[-2:]
        reign = Reign(bounds_of(was), now_ms, previous.next_offset)
        self._reigns = [*(r for r in self._reigns if r.bounds != reign.bounds), reign]
        if manifest.log_start_offset > max(previous.log_start_offset, manifest.deleted_to):
            self._count("floor by retention")
            self._refuse(self.contents.floor_is_early(previous, manifest, self._reigns, manifest.log_start_offset))
        if manifest.config_at != previous.config_at:
            topic = self._topics[manifest.config_at - 1]
            if (topic.topic_id, settings(topic.id, topic.config).bounds) != (manifest.topic_id, bounds_of(head)):
                self.fail(f"manifest {manifest.id} goes by other bounds than version {topic.id} says (R3)")
        if not manifest.sealed:
            shown, floor = log_start(was, manifest.committed_at_ms), log_start(head, manifest.committed_at_ms)
            if floor < shown:
                self.fail(f"readers saw the log start at {shown}, and with manifest {manifest.id} earlier (R3)")
            self._refuse(self.contents.floor_is_wrong(previous, manifest, self._reigns, floor, counted=self._counted))
            self.world.held("R3")

    def _checkpoints(self, previous: Manifest, manifest: Manifest) -> None:
        known = {checkpoint.id for checkpoint in previous.checkpoints}
        for checkpoint in manifest.checkpoints:
            if checkpoint.id not in known:
                self._count("checkpoint")
                same = (c for c in previous.checkpoints if (c.owner, c.name) == (checkpoint.owner, checkpoint.name))
                before = next(same, None)
                if before is not None and (before.expires_at_ms or 0) > self.world.now_ms + self.error_ms:
                    self.fail(f"checkpoint {before} is replaced before it has expired (P20)")
                self.pin_is_whole(checkpoint.manifest)
                self.world.held("P20")

    # --- the end

    def check_at_rest(self, present: Callable[[], list[str]]) -> None:
        head, state = self.head, self.ledger.state
        if head is None:
            return
        self._same_contents(head) if not head.sealed else None
        for checkpoint in head.checkpoints:
            self.pin_is_whole(checkpoint.manifest)
        if state is not None and state.jobs and not head.sealed:
            self.fail(f"job {state.jobs[0].id} never ended: {state.jobs[0].reason}")
        kept = [] if state is None else [j.id for j in state.history if j.status in ("failed", "cancelled")]
        named = self.named_at_rest()
        for segment_id in present():
            protected = not head.sealed and any(SegmentId.of_job(segment_id, job) for job in kept)
            if segment_id not in named and not protected:
                self.fail(f"segment {segment_id} was left behind (P16, P18)")
        missing = [s for s in named if not self.present(s)]
        if missing:
            self.fail(f"segment {missing[0]} is missing at the end (P16)")
        for number in self._lineage:
            there = self.keys.manifest.key(number) in self.world.objects
            if there and not self.retained(number):
                self.fail(f"dead manifest {number} was left behind (P18)")
        self.world.held("P16", "P18")
