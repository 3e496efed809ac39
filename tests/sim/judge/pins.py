"""How long a checkpoint pins (P20): from its commit for as long as its maker asked."""

from collections.abc import Collection

from tests.sim.judge.layout import Json

__all__ = ["pinned_wrongly"]


def pinned_wrongly(previous: Json, manifest: Json, asked_ms: Collection[int | None]) -> str | None:
    """`asked_ms`: the lifetimes that the author ever asked for; None is for ever."""
    known = {each["id"]: each for each in previous.get("checkpoints", ())}
    for each in manifest.get("checkpoints", ()):
        if known.get(each["id"]) == each:
            continue
        expires_ms = each.get("expires_at_ms")
        lasts_ms = None if expires_ms is None else expires_ms - manifest["committed_at_ms"]
        if lasts_ms not in asked_ms:
            return f"checkpoint {each['name']} lasts {lasts_ms} ms, and {[*asked_ms]} were asked for (P20)"
        if each["id"] not in known and each["manifest"] != manifest["id"]:
            return f"checkpoint {each['name']} pins manifest {each['manifest']}, not {manifest['id']} (P20)"
    return None
