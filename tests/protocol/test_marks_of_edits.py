"""The two marks of each edit: whether it may use the reserve of a full disk (RFC 0012), and whether it may be applied
again after its number died (P4). A new edit must be entered here."""

import importlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("compactor", "gc", "log", "manifest", "work")
FREES = {
    # They lead to deletions; so does the number that a sweep takes before it deletes what no version announced.
    *("_Advance", "Collect", "Seal", "DropSegments", "RaiseFloor", "SetBounds", "DeleteCheckpoint", "_TakeNext"),
    # A topic altered or deleted: shorter retention, or none of it.
    *("_Alter", "_Delete"),
    # Only an owner drops; and a claim's mark ends.
    *("Claim", "ClaimState", "ClaimAndAdmit", "EndPlanning"),
    # A job that is under way lets go of what it pinned.
    *("CommitCompaction", "CommitRelocation", "ForgetHomes", "Record", "Finish", "EndAttempt", "RequestCancel"),
    # Whoever asks what became of an append must get an answer.
    "Touch",
}
GROWS = {
    # The log, and what it keeps of its clients.
    *(
        "Append",
        "AppendMany",
        "UseHome",
        "AppendUploaded",
        "BeginUpload",
        "OpenProducer",
        "CreatePartition",
        "_Announce",
        "EndTransaction",
        "ForgetTransaction",
    ),
    *("CreateCheckpoint", "RefreshCheckpoint", "CommitPosition", "TakePosition", "ResetPosition", "ForgetConsumer"),
    # They lead to uploads, which would be refused.
    *("Submit", "Admit", "StartAttempt", "Discard", "Heartbeat", "ShowPlanning"),
    # A successor would wait for a lease instead.
    "Leave",
    # Settings that delete nothing.
    *("AlterWarehouse", "SetQuarantine", "LiftQuarantine"),
}
ONCE = {"Submit"}


def edits() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if "    repeatable = " not in file.read_text(encoding="utf-8"):
            continue
        name = ".".join(("lithify", *file.relative_to(ROOT).with_suffix("").parts))
        made = [kind for kind in vars(importlib.import_module(name)).values() if isinstance(kind, type)]
        found |= {kind.__name__: kind for kind in made if kind.__module__ == name and "repeatable" in vars(kind)}
    return found


def test_what_may_use_the_reserve_is_what_leads_to_deletions() -> None:
    marks = {name: kind.frees for name, kind in edits().items()}
    assert marks == dict.fromkeys(FREES, True) | dict.fromkeys(GROWS, False)


def test_what_recognises_itself_in_the_head_may_be_applied_again() -> None:
    assert {name for name, kind in edits().items() if not kind.repeatable} == ONCE
