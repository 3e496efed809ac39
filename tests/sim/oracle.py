"""Who sees every change of the simulated store: it finds the partition that a change belongs to, and asks what is true
there. It also keeps what actors were told, to hold it against what happened."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import msgspec

from lithify.manifest.catalog import partition_keys
from lithify.manifest.keys import EndKeys, PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.segment.task import JobTask
from tests.sim.cast import WORKER, Author, Violation
from tests.sim.judge.floors import bounds_of
from tests.sim.judge.judge import Began, Judge
from tests.sim.judge.layout import place_of
from tests.sim.judge.settings import Settings, settings
from tests.sim.lists import Lists
from tests.sim.truth import Truth
from tests.sim.world import World

__all__ = ["Oracle"]

_topic = msgspec.json.Decoder(TopicFile).decode


@dataclass
class Oracle:
    world: World
    grace_ms: int
    error_ms: int  # by which ages may be wrong
    truths: dict[str, Truth] = field(default_factory=dict)  # by the partition's root
    topics: list[TopicFile] = field(default_factory=list)  # of the one topic, by number
    others: set[str] = field(default_factory=set)  # keys of files that are none of lithify's
    begun: dict[Author, Began] = field(default_factory=dict)  # steps of compactors
    judge: Judge = field(init=False)  # by the written rules alone
    lists: dict[str, Lists] = field(default_factory=dict)  # by the partition's root
    _configs: dict[str, list[Settings]] = field(default_factory=dict)  # by topic id

    def __post_init__(self) -> None:
        self.judge = Judge(self.error_ms)

    def _refuse(self, wrong: str | None) -> None:
        if wrong is not None:
            raise Violation(wrong)

    def as_of_now(self, author: Author) -> Callable[[], AbstractContextManager[None]]:
        """Later on: everything as if `author` were still in the step that it is in now."""
        step = self.begun.get(author)

        @contextmanager
        def again() -> Generator[None]:
            since = self.begun.get(author)
            if step is not None:
                self.begun[author] = step
            yield
            if since is not None:
                self.begun[author] = since

        return again

    def left_by_others(self, keys: PartitionKeys) -> None:
        """Files of other applications, and a person's copies, lie between the partition's own."""
        names = ("1-export", "000000000001-0123456789abcdef.orig", "000000000001-01234567-1-0-01234567/part")
        self.others |= {keys.segment(name) for name in names}
        for key in self.others:
            self.world.store.store(key, b"")

    def truth(self, keys: PartitionKeys) -> Truth:
        found = self.truths.get(keys.root)
        if found is None:
            configs = self._configs.setdefault(keys.topic_id, [])
            judged = self.judge.partition(keys.root)
            found = self.truths[keys.root] = Truth(
                keys, self.world, self.grace_ms, self.error_ms, configs, self.topics, judged
            )
        return found

    def _of(self, key: str) -> tuple[Truth, str] | None:
        parts = key.split("/")
        if len(parts) != 5:
            return None
        return self.truth(PartitionKeys(parts[0], parts[1], int(parts[2]))), parts[3]

    def created(self, author: Author, key: str, body: bytes) -> None:
        if WORKER in author[0]:
            raise Violation(f"worker {author[0]} writes {key} (P11)")
        place = place_of(key)
        if place is not None and place.run_list is not None:
            self.world.counts["run list"] += 1
            self._refuse(self._lists(place.root).stored(place.run_list, body))
            return
        if place is not None and place.folder == "manifest":
            body = self._whole(place.root, place.number or 0, body)
        self._refuse(self.judge.created(author, author[0], self.begun.get(author), key, body, self.world.now_ms))
        found = self._of(key)
        if found is None:
            self._topic(body)
            return
        truth, chain = found
        number = int(key[key.rindex("/") + 1 :].partition(".")[0])
        match chain:
            case "manifest":
                truth.manifest_created(author, number, body)
            case "compactor":
                truth.ledger.created(author, number, body)
            case _:
                truth.boundary_created(number, body)

    def _lists(self, root: str) -> Lists:
        return self.lists.setdefault(root, Lists())

    def _whole(self, root: str, number: int, body: bytes) -> bytes:
        """A manifest with all its runs. Of one on a dead number nothing is known, and nothing wanted."""
        truth = self.truths.get(root)
        if truth is not None and number <= truth.dead:
            return body
        whole, wrong = self._lists(root).whole(
            number, body, lambda name: f"{root}manifest/{name}.runs" in self.world.objects
        )
        self._refuse(wrong and f"{root}: {wrong}")
        if b'"lists":' in body:
            self.world.held("P23")
        return whole

    def lists_left(self, keys: PartitionKeys) -> str | None:
        places = (place for key in self.world.objects if key.startswith(keys.root) and (place := place_of(key)))
        ids = [place.run_list for place in places if place.run_list is not None]
        return self._lists(keys.root).left_over(ids, self.truth(keys).pins())

    def death_of(self, key: str) -> Callable[[], bool]:
        """Tells whether `key` is that of a manifest whose number is dead by now."""
        found = self._of(key)
        number = None if found is None else found[0].keys.manifest.number(key)
        if found is None or number is None:
            return lambda: False
        truth = found[0]
        return lambda: truth.boundary is not None and truth.boundary.manifest >= number

    def _topic(self, body: bytes) -> None:
        topic, known = _topic(body), {topic.topic_id for topic in self.topics}
        self.topics.append(topic)
        self._no_life_is_hidden()
        if topic.deleted:
            return
        self._configs.setdefault(topic.topic_id, []).append(settings(topic.id, topic.config))
        for number in range(topic.partitions):
            head = self.truth(PartitionKeys(topic.topic, topic.topic_id, number)).head
            if head is None or head.sealed:
                raise Violation(f"topic file {topic.id} announces partition {number}, which is not there (P21)")
            bounds = bounds_of(self.judge.partition(PartitionKeys(topic.topic, topic.topic_id, number).root).head)
            if topic.topic_id not in known and bounds != settings(topic.id, topic.config).bounds:
                raise Violation(f"topic file {topic.id} and manifest {head.id} have other bounds (R3)")
            self.world.held("P21")

    @property
    def at_work(self) -> bool:
        """Whether some job is under way."""
        states = (truth.ledger.state for truth in self.truths.values())
        return any(job.plan is not None for state in states if state is not None for job in state.jobs)

    def announced(self, keys: PartitionKeys) -> bool:
        return any(keys in partition_keys(topic) for topic in self.topics if topic.topic_id == keys.topic_id)

    def begins(self, author: Author, *, paused: bool | None = None) -> None:
        """A compactor begins a step: it goes by a configuration that is the newest from now on; or in one respect by
        what it is told, that compaction is `paused` or is not."""
        self.begun[author] = Began(self.world.now_ms, len(self.topics), paused=paused)
        self.world.told_to_stop.discard(author)
        self.world.told_over_a_look.discard(author)
        self.world.merging.discard(author)

    def may_take_over(self, author: Author, take_over: bool) -> bool:
        """What its step is told of that."""
        self.begun[author] = self.begun[author]._replace(may_take_over=take_over)
        return take_over

    def altered(self, topic: TopicFile) -> None:
        """Who altered retention was told that it holds."""
        for number in range(topic.partitions):
            head = self.truth(PartitionKeys(topic.topic, topic.topic_id, number)).head
            if head is None or (head.config_at < topic.id and not head.sealed):
                raise Violation(
                    f"version {topic.id} of the configuration is acknowledged, manifests go by another (R3)"
                )
        self.world.counts["alter acknowledged"] += 1
        self.world.held("R3")

    def sees_start(self, keys: PartitionKeys, number: int, now_ms: int, floor: int) -> None:
        self._refuse(self.judge.partition(keys.root).seen_wrongly(number, now_ms, floor))

    def put(self, author: Author, key: str, body: bytes, home: str = "") -> None:
        found = self._of(key)
        if found is None:
            self._end_said(key)
            return
        self.judge.put(key, body)
        found[0].segment_put(key, body, home)

    def _ends(self) -> tuple[int, int]:
        """Up to which version the topic is said to be over, and after which one that another may come."""
        said = [parsed for key in self.world.objects if (parsed := EndKeys.parse(key)) is not None]
        over, again = ([number for _, number, what in said if what == each] for each in ("over", "again"))
        return max(over, default=0), max(again, default=0)

    def _end_said(self, key: str) -> None:
        parsed = EndKeys.parse(key)
        assert parsed is not None, key
        _, number, what = parsed
        if what == "again":
            return
        if not self.topics[number - 1].deleted:
            raise Violation(f"{key}: version {number} is not the end of a life (P21)")
        for keys in (keys for topic in self.topics[:number] for keys in partition_keys(topic)):
            head = self.truth(keys).head
            if head is None or not head.sealed or head.retired or head.checkpoints or head.unpinned:
                raise Violation(f"{key}: {keys.root} is not collected (P21)")
        self.world.counts["topic over"] += 1
        self._no_life_is_hidden()

    def _end_unsaid(self, key: str, said: tuple[str, int, str]) -> None:
        name, number, what = said
        others = (parsed for other in self.world.objects if (parsed := EndKeys.parse(other)) is not None)
        if not any((topic, kind) == (name, what) and later > number for topic, later, kind in others):
            raise Violation(f"{key} is deleted, and no later mark says as much (P21)")
        self.world.counts["former mark deleted"] += 1

    def _no_life_is_hidden(self) -> None:
        over, again = self._ends()
        if over > again and over < len(self.topics):
            raise Violation(f"the topic is said to be over at version {over}, and has {len(self.topics)} (P21)")
        self.world.held("P21")

    def deleting(self, author: Author, key: str) -> None:
        if key in self.others:
            raise Violation(f"{key} is deleted, which is none of lithify's (P18)")
        if (said := EndKeys.parse(key)) is not None:
            self._end_unsaid(key, said)
            return
        found = self._of(key)
        if found is None:
            raise Violation(f"{key} is deleted; topic files never are (P4)")
        truth, chain = found
        place, segment_id = place_of(key), truth.keys.segment_id(key)
        if place is not None and place.run_list is not None:
            self.world.counts["deleted: run list"] += 1
            self._refuse(self._lists(place.root).deleted(place.run_list, truth.dead, truth.pins()))
            return
        self.world.counts[f"deleted: {chain}"] += 1
        if segment_id is not None:
            truth.segment_deleting(segment_id)
            return
        if chain == "boundary":
            raise Violation(f"{key} is deleted; boundary files never are (P4)")
        if key == truth.keys.manifest.key(1) and not self.announced(truth.keys):
            # Who announces it later is told that it is not there.
            del self.truths[truth.keys.root]
            self.judge.forgotten(truth.keys.root)
            self.lists.pop(truth.keys.root, None)
            self.world.counts["unannounced partition swept"] += 1
            return
        truth.number_deleting(chain, int(key[key.rindex("/") + 1 :].partition(".")[0]))

    def starts(self, author: Author, tasks: tuple[JobTask, ...]) -> None:
        for task in tasks:
            truth = self.truth(task.keys)
            truth.readings.begin(author, self.world.steps)
            truth.ledger.starts(author, (task,))

    def prepares(self, author: Author, tasks: tuple[JobTask, ...]) -> None:
        """These tasks begin to read before their attempt begins; none: whatever was prepared is given up."""
        for truth in self.truths.values():
            truth.ledger.prepared.pop(author, None)
        for task in tasks:
            self.truth(task.keys).ledger.prepared[author] = self.world.steps

    def engine_gone(self, author: Author, tasks: tuple[JobTask, ...], *, died: bool) -> None:
        for task in tasks:
            self.truth(task.keys).ledger.engine_gone(author, died=died)

    def access_denied(self, author: Author) -> None:
        for truth in self.truths.values():
            truth.ledger.access_denied(author)

    def own_failure(self, author: Author, keys: PartitionKeys) -> None:
        self.truth(keys).ledger.own_failure(author)

    def unanswered(self, author: Author, keys: PartitionKeys) -> None:
        """A step of a compactor ended, and the outcome of what it wrote is unknown."""
        self.truth(keys).ledger.unanswered(author)

    def anew(self, author: Author) -> None:
        for truth in self.truths.values():
            truth.ledger.anew(author)

    def acknowledged(self, keys: PartitionKeys, tokens: Sequence[str], offsets: range) -> None:
        contents = self.truth(keys).contents
        found = [contents.at.get(token) for token in tokens]
        if found != list(offsets):
            raise Violation(f"{keys.root}: {tokens} were acknowledged at {offsets} and are at {found} (P1, P4, P6)")
        self.world.counts["append acknowledged"] += 1
        self.world.held("P1", "P6")

    def denied(self, keys: PartitionKeys, tokens: Sequence[str]) -> None:
        """Their producer was told that they are certainly not appended."""
        truth = self.truth(keys)
        there = [token for token in tokens if token in truth.contents.at]
        if there:
            raise Violation(f"{keys.root}: record {there[0]} was said not to be appended, and is (P1, P4)")
        truth.refused.update(tokens)
        self.world.counts["append refused"] += 1
        self.world.held("P1")
