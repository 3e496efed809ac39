"""What a partition may make of the applications that number their appends (P6, docs/rfcs/0011): whom it may forget, and
whose records may therefore come a second time."""

from collections import Counter
from collections.abc import Sequence

from lithify.manifest import transactions
from lithify.manifest.model import Manifest
from tests.sim.frames import changes
from tests.sim.judge.settings import Settings

__all__ = ["Applications"]


class Applications:
    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.forgotten: dict[str, int] = {}  # and where the log ended then

    def judge(self, previous: Manifest, manifest: Manifest, configs: Sequence[Settings]) -> str | None:
        """What is wrong with what this commit did to them, if anything is."""
        found = changes(previous.transactions, manifest.transactions, "application")
        appended = manifest.next_offset > previous.next_offset
        for entry in [*found.added, *(now for _, now in found.changed if appended)]:
            if (entry.touched_at, entry.touched_at_ms) != (manifest.id, manifest.committed_at_ms):
                return f"application {entry.application} was here at {entry.touched_at}, not now (P6)"
        for entry in found.removed:
            self.forgotten[entry.application] = previous.next_offset
            if not appended:
                continue  # by hand
            self._counts["application that ended gives way" if entry.ended else "application expires"] += 1
            idle_ms = manifest.committed_at_ms - entry.touched_at_ms
            expired = any(idle_ms > config.application_ms for config in configs)
            if len(previous.transactions) + len(found.added) <= transactions.TRANSACTIONS_MAX:
                return f"application {entry.application} is forgotten, and there is room (P6)"
            if not entry.ended and not (expired and entry.touched_at < previous.orphan_floor):
                return f"application {entry.application} is forgotten, {idle_ms} ms old (P6)"
            awaited = [each for each in previous.uploads if each.appended is None]
            if not entry.ended and any(each.begun_at <= entry.touched_at for each in awaited):
                return f"application {entry.application} is forgotten, and an upload from before may follow (P22)"
            rivals = [other for other in previous.transactions if other.ended == entry.ended]
            if any(other.touched_at < entry.touched_at and self._may_go(other, manifest, configs) for other in rivals):
                return f"application {entry.application} is forgotten, and was not idle for longest (P6)"
        return None

    def _may_go(self, entry: object, manifest: Manifest, configs: Sequence[Settings]) -> bool:
        """Surely, whichever configuration its judge knew."""
        assert isinstance(entry, transactions.Transaction)
        idle_ms = manifest.committed_at_ms - entry.touched_at_ms
        mine = any(known.application == entry.application and known != entry for known in manifest.transactions)
        late = all(idle_ms > config.application_ms for config in configs)
        late = late and all(each.begun_at > entry.touched_at for each in manifest.uploads)
        return not mine and (entry.ended or (late and entry.touched_at < manifest.orphan_floor))

    def anew_to(self, previous: Manifest, manifest: Manifest) -> int:
        """The offset below which records of this append may be there already: its application was forgotten then."""
        found = changes(previous.transactions, manifest.transactions, "application")
        sent = [*found.added, *(now for _, now in found.changed)]
        return max((self.forgotten.get(entry.application, 0) for entry in sent), default=0)
