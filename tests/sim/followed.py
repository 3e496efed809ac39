"""What a partition's events add up to, and whether that is what its files hold (docs/rfcs/0015). Whoever follows the
events of a partition from its first manifest on knows all this without having read a file."""

from collections.abc import Mapping

from lithify.events import types as events
from lithify.events.changes import amount, changes_of_jobs, changes_of_manifest
from lithify.events.types import Amount, Event
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import Manifest, Retention, Upload

__all__ = ["Followed"]


class Followed:
    """By one partition's events, each told once and in order."""

    def __init__(self) -> None:
        self._sealed = False
        self._live = Amount()
        self._retired = Amount()
        self._end = 0  # offset after the last record
        self._floor = 0
        self._cleaned_to = 0
        self._epoch = 0
        self._orphan_floor = 0
        self._bounds: tuple[Retention | None, int] = None, 0
        self._quarantine = ""  # the segment it is for
        self._pins: dict[str, tuple[str, str, int | None]] = {}  # id -> owner, name, expiry
        self._consumers: dict[str, int] = {}
        self._producers: dict[str, int] = {}
        self._applications: dict[str, bool] = {}  # and whether they ended
        self._uploads: dict[str, tuple[int, int] | None] = {}  # name -> once appended: offset, rows
        self._compacted: set[str] = set()
        self._owner = ""
        self._jobs: dict[str, tuple[int, int]] = {}  # those under way -> recorded key ranges, of how many
        self._made: dict[str, Amount] = {}
        self._attempts: dict[str, int] = {}  # the one that is open
        self._cancel: set[str] = set()

    def manifest(self, before: Manifest | None, after: Manifest) -> str | None:
        """What the events of `after` leave wrong; None: nothing."""
        if before is None:
            self._bounds = after.retention, after.config_at  # those it was made with
        for event in changes_of_manifest(before, after):
            if (event.topic, event.partition) != (after.topic, after.partition) or event.manifest != after.id:
                return f"event {event} is not of manifest {after.id}"
            self._take(event)
        told = {
            "sealed": self._sealed,
            "live": self._live,
            "retired": self._retired,
            "end": self._end,
            "floor": self._floor,
            "cleaned_to": self._cleaned_to,
            "epoch": self._epoch,
            "orphan floor": self._orphan_floor,
            "bounds": self._bounds,
            "quarantine": self._quarantine,
            "pins": self._pins,
            "consumers": self._consumers,
            "producers": self._producers,
            "applications": self._applications,
            "uploads": self._uploads,
            "compacted": {done.id for done in after.completed_jobs} <= self._compacted,
        }
        holds = {
            "sealed": after.sealed,
            "live": amount(after.segments()),
            "retired": amount(after.retired),
            "end": after.next_offset,
            "floor": after.log_start_offset,
            "cleaned_to": after.cleaned_to,
            "epoch": after.compactor_epoch,
            "orphan floor": after.orphan_floor,
            "bounds": (after.retention, after.config_at),
            "quarantine": "" if after.quarantine is None else after.quarantine.segment,
            "pins": {pin.id: (pin.owner, pin.name, pin.expires_at_ms) for pin in after.checkpoints},
            "consumers": {each.name: each.offset for each in after.consumers},
            "producers": {each.id: each.epoch for each in after.producers},
            "applications": {each.application: each.ended for each in after.transactions},
            "uploads": {each.name: _offsets(each) for each in after.uploads},
            "compacted": True,
        }
        return _difference(told, holds)

    def jobs(self, before: CompactorState | None, after: CompactorState) -> str | None:
        for event in changes_of_jobs(before, after):
            if (event.topic, event.partition) != (after.topic, after.partition) or event.compactor != after.id:
                return f"event {event} is not of .compactor {after.id}"
            self._take_job(event)
        told = {
            "owner": self._owner,
            "jobs": self._jobs,
            "made": {name: self._made.get(name, Amount()).rows for name in self._jobs},
            "attempts": self._attempts,
            "cancel": self._cancel,
        }
        holds = {
            "owner": after.owner_name if after.owner else "",
            "jobs": {j.id: (len(j.done), 0 if j.plan is None else len(j.plan.ranges)) for j in after.jobs},
            "made": {j.id: sum(ref.rows for ref in j.outputs()) for j in after.jobs},
            "attempts": {j.id: a.number for j in after.jobs for a in j.attempts if a.ended_at_ms is None},
            "cancel": {j.id for j in after.jobs if j.cancel_requested},
        }
        return _difference(told, holds)

    def _take(self, event: Event) -> None:
        match event:
            case events.Appended():
                self._live += event.size
                self._end = event.offset + event.size.rows
                if event.application:
                    self._applications.setdefault(event.application, False)
            case events.Compacted():
                self._live += event.made
                self._live -= event.replaced
                self._retired += event.replaced
                self._cleaned_to = event.cleaned_to
                self._compacted.add(event.job)
            case events.SegmentsDropped():
                self._live -= event.dropped
                self._retired += event.dropped
            case events.PartitionSealed():
                self._sealed = True
                self._live -= event.let_go
                self._retired += event.let_go
            case events.GarbageForgotten():
                self._retired -= event.forgotten
            case _:
                self._take_number(event)

    def _take_number(self, event: Event) -> None:
        match event:
            case events.FloorRaised():
                self._floor = event.log_start_offset
            case events.EpochRaised():
                self._epoch = event.epoch
            case events.OrphanFloorRaised():
                self._orphan_floor = event.orphan_floor
            case events.RetentionAltered():
                self._bounds = event.retention, event.config_at
            case events.Quarantined():
                self._quarantine = event.segment
            case events.QuarantineLifted():
                self._quarantine = ""
            case _:
                self._take_client(event)

    def _take_client(self, event: Event) -> None:
        match event:
            case events.CheckpointCreated() | events.CheckpointRefreshed():
                self._pins[event.checkpoint] = (event.owner, event.name, event.expires_at_ms)
            case events.CheckpointRemoved():
                assert self._pins.pop(event.checkpoint)[:2] == (event.owner, event.name), event
            case events.ConsumerCommitted():
                self._consumers[event.name] = event.offset
            case events.ConsumerForgotten():
                del self._consumers[event.name]
            case events.ProducerOpened():
                self._producers[event.producer] = event.epoch
            case events.ProducerForgotten():
                del self._producers[event.producer]
            case events.TransactionEnded():
                self._applications[event.application] = True
            case events.TransactionResumed():
                self._applications[event.application] = False
            case events.TransactionForgotten():
                del self._applications[event.application]
            case _:
                self._take_upload(event)

    def _take_upload(self, event: Event) -> None:
        match event:
            case events.UploadBegun():
                self._uploads[event.upload] = None
            case events.UploadCommitted():
                self._uploads[event.upload] = event.offset, event.rows
            case events.UploadRemoved():
                assert (self._uploads.pop(event.upload) is not None) == event.appended, event
            case _:
                assert isinstance(event, events.PartitionCreated), event

    def _take_job(self, event: Event) -> None:
        match event:
            case events.OwnerLeft():
                assert self._owner == event.owner, event
                self._owner = ""
            case events.Claimed():
                self._owner = event.owner
            case events.JobRequested():
                self._jobs[event.job] = (0, 0)
            case events.CancelRequested():
                self._cancel.add(event.job)
            case events.JobAdmitted():
                self._jobs[event.job] = (0, event.ranges)
            case events.AttemptBegan():
                self._attempts[event.job] = event.attempt
            case events.AttemptEnded():
                del self._attempts[event.job]
            case events.RangesRecorded():
                self._jobs[event.job] = (self._jobs[event.job][0] + event.fresh, event.ranges)
                self._made[event.job] = self._made.get(event.job, Amount()) + event.made
            case events.RangesDiscarded():
                recorded, ranges = self._jobs[event.job]
                self._jobs[event.job] = (recorded - event.discarded, ranges)
                self._made[event.job] = self._made.get(event.job, Amount()) - event.lost
            case events.JobEnded():
                for known in (self._jobs, self._made, self._attempts):
                    known.pop(event.job, None)
                self._cancel.discard(event.job)
            case _:
                raise AssertionError(event)


def _offsets(upload: Upload) -> tuple[int, int] | None:
    return None if upload.appended is None else (upload.appended.base_offset, upload.appended.rows)


def _difference(told: Mapping[str, object], holds: Mapping[str, object]) -> str | None:
    wrong = [f"{name}: told {told[name]}, held {holds[name]}" for name in told if told[name] != holds[name]]
    return f"the events do not add up: {'; '.join(wrong)} (RFC 0015)" if wrong else None
