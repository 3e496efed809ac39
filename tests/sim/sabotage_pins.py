"""Sabotages of what checkpoints keep: who names it, and who finds it once they are gone."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_PINS"]

OF_PINS = (
    Sabotage(
        "what only a checkpoint keeps stays in the list",
        "P16",
        "manifest/pins.py",
        "    if not pins:\n        return frozenset()",
        "    if pins or not pins:\n        return frozenset()",
    ),
    Sabotage(
        "what a checkpoint let go of is not noted",
        "P16",
        "manifest/pins.py",
        "if number < head.orphan_floor)",
        "if number < 0)",
    ),
    Sabotage(
        "an entry is handed over to whoever pinned it once",
        "P16",
        "manifest/pins.py",
        "handed_over(head.replaced, checkpoints, self.boundary, self.homes)",
        "handed_over(head.replaced, head.checkpoints, self.boundary, self.homes)",
    ),
    Sabotage(
        "collecting an unpinned manifest deletes what another checkpoint keeps",
        "P20",
        "gc/unpinned.py",
        "if ref.id not in others and ref.added_at > below",
        "if ref.id not in self._known and ref.added_at > below",
        focus="pins",
    ),
    Sabotage(
        "what nobody pins any more is not looked at",
        "P16",
        "gc/unpinned.py",
        "if ref.id not in others and ref.added_at > below",
        "if ref.id in others",
        focus="pins",
    ),
    Sabotage(
        "an expired checkpoint is refreshed",
        "P20",
        "manifest/pins.py",
        "mine is None or expired(mine, now_ms):",
        "mine is None:",
    ),
    Sabotage(
        "a scan at its bound takes the place of one that reads",
        "P20",
        "manifest/pins.py",
        'going = mine[:excess] if owner == "view" else [pin for pin in mine if expired(pin, now_ms)]',
        "going = mine[:excess]",
    ),
    Sabotage(
        "a view drops its newest pin",
        "P20",
        "manifest/pins.py",
        'going = mine[:excess] if owner == "view"',
        'going = mine[-excess:] if owner == "view"',
    ),
    Sabotage(
        "a view takes the place of others' pins",
        "P20",
        "manifest/pins.py",
        "mine = by_manifest([pin for pin in pins if pin.owner == owner])",
        "mine = by_manifest(pins)",
    ),
    Sabotage(
        "pin names are shared by all owners",
        "P20",
        "log/checkpoints.py",
        "if (known.owner, known.name) == (owner, name)",
        "if known.name == name",
    ),
    Sabotage(
        "a scan's pin is refreshed for as long as it likes",
        "P20",
        "manifest/pins.py",
        "error = _lasts_too_long(mine.owner, self.ttl_ms)",
        "error = None",
    ),
    Sabotage(
        "what gave way to a new pin is not noted",
        "P20",
        "manifest/pins.py",
        "unpinned=unpinned(head, kept),\n            log_start_offset=floor,",
        "unpinned=head.unpinned,\n            log_start_offset=floor,",
        focus="pins",
    ),
)
