"""Whether the compacted state of a manifest is what the log was at that offset, by every record ever appended."""

from lithify.manifest.compacted import compacted
from lithify.manifest.model import Manifest
from tests.sim.contents import Contents

__all__ = ["no_state"]


def no_state(manifest: Manifest, contents: Contents) -> str | None:
    """What is wrong with it; None: nothing, or there is none."""
    found = compacted(manifest, manifest.log_start_offset, grown=False)
    if found is None:
        return None
    rows = {row.offset: row for ref in found.segments for row in contents.rows(ref)}
    latest = {row.key: row for row in contents.placed.values() if row.offset < found.as_of}
    for offset, row in rows.items():
        if row.key is None or latest[row.key].offset != offset:
            return f"the state as of {found.as_of} holds offset {offset}, which is not the latest of its key (R4)"
    for key, row in latest.items():
        if key is not None and row.offset not in rows and not row.dead and row.offset >= found.floor:
            return f"the state as of {found.as_of} lacks offset {row.offset}, the latest of {key} (R4)"
    beyond = [ref.id for ref in manifest.segments() if ref.min_offset < found.as_of and ref not in found.segments]
    return f"{beyond[0]} reaches below {found.as_of}, and is no part of the state as of it (R4)" if beyond else None
