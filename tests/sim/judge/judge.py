"""All partitions of one topic, the versions of its configuration, and what actors told of themselves."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tests.sim.judge import remains
from tests.sim.judge.debts import owed
from tests.sim.judge.homes import HOMES_MAX, MOVES_MAX, forgotten_too_late, left_elsewhere
from tests.sim.judge.layout import load, place_of
from tests.sim.judge.owners import BOUNDS
from tests.sim.judge.partition import Asker, Partition
from tests.sim.judge.settings import Settings, settings
from tests.sim.judge.tiers import INPUTS_MAX
from tests.sim.judge.uploads import AT_MOST, AtMost

__all__ = ["Began", "Judge"]

CLOCKS_ERR_MS = 3_000  # times are whole seconds, a clock may stand still for a second, and be asked a while ago


class Began(NamedTuple):
    """A step of a compactor."""

    at_ms: int
    versions: int  # of the configuration, that there were
    may_take_over: bool = True  # nobody said that it may not
    paused: bool | None = None  # whether it was told to be, whatever the configuration says


class Judge:
    def __init__(self, error_ms: int) -> None:
        self._error_ms = error_ms + CLOCKS_ERR_MS
        self.inputs_max = INPUTS_MAX  # of one merge
        self.pins_max: Mapping[str, int] = BOUNDS
        self.uploads_max: AtMost = AT_MOST
        self.homes_max, self.moves_max = HOMES_MAX, MOVES_MAX
        self.others = set[str]()  # homes that are another warehouse's
        self.partitions: dict[str, Partition] = {}  # by root
        self._versions: list[tuple[str, Settings]] = []  # with the topic's id
        self._deleted: set[str] = set()  # ids of topics
        self._lifetimes_ms: dict[object, set[int | None]] = {}
        self._recalls: dict[str, list[tuple[int, str | None]]] = {}  # by root

    def partition(self, root: str) -> Partition:
        found = self.partitions.get(root)
        if found is None:
            found = self.partitions[root] = Partition()
        return found

    def asks_to_pin(self, who: object, lifetime_ms: int | None) -> None:
        """Or to upload, for so long."""
        self._lifetimes_ms.setdefault(who, set()).add(lifetime_ms)

    def recalled(self, root: str, config_at: int, job: str | None) -> None:
        """Somebody was told that everything comes back, by that job; None: that everything is here already. The
        manifest went by version `config_at` of the configuration."""
        self._recalls.setdefault(root, []).append((config_at, job))

    def put(self, key: str, body: bytes) -> None:
        place = place_of(key)
        if place is not None and place.segment is not None:
            self.partition(place.root).records.put(place.segment, body)

    def created(
        self, author: object, who: object, began: Began | None, key: str, body: bytes, now_ms: int
    ) -> str | None:
        """What is wrong with the file that `author`, a life of the actor `who`, has just created."""
        place = place_of(key)
        if place is None:
            topic = load(body)
            if topic.get("deleted"):
                self._deleted.add(topic["topic_id"])
            self._versions.append((topic["topic_id"], settings(topic["id"], topic["config"])))
            return None
        assert place.number is not None
        asker = self._asker(author, who, began, place.topic_id, now_ms)
        asker = asker._replace(who=who, bounds=self.pins_max, uploads_max=self.uploads_max)
        asker = asker._replace(moves_max=self.moves_max, others=self.others)
        wrong = next(self.partition(place.root).created(asker, place.folder, place.number, body, now_ms), None)
        return wrong and f"{place.root}: {wrong}"

    def _asker(self, author: object, who: object, began: Began | None, topic_id: str, now_ms: int) -> Asker:
        lifetimes_ms: Collection[int | None] = self._lifetimes_ms.get(who, ())
        until_ms, deleted = now_ms + self._error_ms, topic_id in self._deleted
        if began is None:
            configs = self._of(topic_id)
            return Asker(author, 0, 0, until_ms, configs, lifetimes_ms=lifetimes_ms, deleted=deleted)  # admits nothing
        configs = self._of(topic_id, max(began.versions - 1, 0)) or self._of(topic_id)
        since_ms = began.at_ms - self._error_ms
        orders = began.may_take_over, began.paused
        return Asker(author, began.at_ms, since_ms, until_ms, configs, *orders, lifetimes_ms, deleted, self.inputs_max)

    def _of(self, topic_id: str, first: int = 0) -> list[Settings]:
        return [config for name, config in self._versions[first:] if name == topic_id]

    def forgotten(self, root: str) -> None:
        """A partition that nobody announced was swept."""
        self.partitions.pop(root, None)

    # --- the end

    def owed(self, root: str, topic_id: str, now_ms: int) -> str | None:
        """What the partition still owes at `now_ms`, though everything has come to rest."""
        found = next(
            owed(self.partition(root).head, self._of(topic_id)[-1], now_ms - self._error_ms, self.homes_max), None
        )
        return found and f"{root}: at rest {found}"

    def may_owe(self, root: str, topic_id: str, now_ms: int) -> bool:
        """By some clock. What is due stays due, so the latest one tells."""
        return any(owed(self.partition(root).head, self._of(topic_id)[-1], now_ms + self._error_ms, self.homes_max))

    def stand(self, root: str) -> remains.Stand:
        partition = self.partition(root)
        return remains.Stand(partition.boundary, partition.head)

    def left_by_a_pass(self, keys: Iterable[str], root: str, before: remains.Stand) -> str | None:
        return remains.left_by_a_pass(keys, root, before, self.stand(root))

    def left_over(self, keys: Collection[str], root: str, others: Collection[str], now_ms: int) -> str | None:
        partition = self.partition(root)
        head, state = partition.head, partition.state
        expired = remains.expired_pins(head, now_ms - self._error_ms)
        if expired:
            return f"{root}: checkpoint {min(expired)} has expired, and pins still (P20)"
        pinned = [m for each in head.get("checkpoints", ()) if (m := partition.manifest(each["manifest"])) is not None]
        ours = [key for key in keys if key not in others]
        return remains.left_over(ours, root, head, pinned, partition.boundary, state.get("history", ()))

    def noted_too_long(self, root: str, places: Collection[str]) -> str | None:
        """`places`: where objects of the partition are, besides the warehouse."""
        partition = self.partition(root)
        wrong = forgotten_too_late(partition.head, partition.state.get("history", ()), places)
        return wrong and f"{root}: at rest {wrong}"

    def not_back(self, root: str, topic_id: str) -> str | None:
        partition = self.partition(root)
        done = {job["id"] for job in partition.state.get("history", ()) if job["status"] == "completed"}
        since = [version for version, job in self._recalls.get(root, ()) if job is None or job in done]
        found = (left_elsewhere(partition.head, version, self._of(topic_id)) for version in since)
        wrong = next((each for each in found if each), None)
        return wrong and f"{root}: at rest {wrong}"

    def unaccounted(self, keys: Iterable[str], topic: str, others: Collection[str]) -> str | None:
        return remains.unaccounted(keys, self.partitions.keys(), topic, others)
