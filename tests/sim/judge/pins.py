"""How long a checkpoint pins (P20): from its commit for as long as its maker asked; and what is noted when it goes
(P16)."""

from collections.abc import Callable, Collection

from tests.sim.judge.layout import Json, live

__all__ = ["let_go_wrongly", "pinned_wrongly"]


def pinned_wrongly(previous: Json, manifest: Json, asked_ms: Collection[int | None]) -> str | None:
    """`asked_ms`: the lifetimes that the author ever asked for; None is for ever."""
    known = {each["id"]: each for each in previous.get("checkpoints", ())}
    for each in manifest.get("checkpoints", ()):
        if known.get(each["id"]) == each:
            continue
        if _had_expired(known.get(each["id"], {}), manifest["committed_at_ms"]):
            return f"checkpoint {each['name']} had expired, and lasts on (P20)"
        expires_ms = each.get("expires_at_ms")
        lasts_ms = None if expires_ms is None else expires_ms - manifest["committed_at_ms"]
        if lasts_ms not in asked_ms:
            return f"checkpoint {each['name']} lasts {lasts_ms} ms, and {[*asked_ms]} were asked for (P20)"
        if each["id"] not in known and each["manifest"] != manifest["id"]:
            return f"checkpoint {each['name']} pins manifest {each['manifest']}, not {manifest['id']} (P20)"
    return None


def _had_expired(checkpoint: Json, at_ms: int) -> bool:
    expires_ms = checkpoint.get("expires_at_ms")
    return expires_ms is not None and expires_ms <= at_ms


def let_go_wrongly(previous: Json, manifest: Json, of: Callable[[int], Json | None]) -> str | None:
    """A checkpoint is gone, and with it perhaps the last name of a segment: then its manifest is noted, so that a pass
    finds it (RFC 0005). `of`: a manifest by its number."""
    was, pins = ({each["manifest"] for each in one.get("checkpoints", ())} for one in (previous, manifest))
    known = live(manifest) | {each["id"] for each in manifest.get("retired", ())}
    kept = [of(number) for number in (*pins, *manifest.get("unpinned", ()))]
    named = known.union(*(live(each) for each in kept if each is not None))
    for number in was - pins:
        left = of(number)
        alone = set[str]() if left is None else live(left) - named
        if alone:
            return f"manifest {manifest['id']} lets go of {number}, and nothing names {min(alone)} any more (P16)"
    odd = {*manifest.get("unpinned", ())} - {*previous.get("unpinned", ())} - was
    return f"manifest {manifest['id']} notes {min(odd)}, which nobody had pinned (P16)" if odd else None
