"""Whether a topic's cold home is one that this warehouse can use."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lithify.store.errors import InvalidRequest
from lithify.store.port import Store
from lithify.store.urls import shown

__all__ = ["check_cold_home"]


def check_cold_home(changes: Mapping[str, str | None], here: Store) -> None:
    """Raises InvalidRequest if a storage class is asked of a store that has none, or if the cold home is the
    warehouse's own place, within it or around it: what is moved would lie where it lay."""
    url = here.url
    wanted = changes.get("cold.storage.class")
    if wanted and not url.startswith("s3://"):
        raise InvalidRequest(
            f"cold.storage.class is {wanted!r}, but only S3 has storage classes, and this warehouse is {shown(url)}: "
            "use cold.location"
        )
    location = changes.get("cold.location")
    if location and _overlap(_place(location), _place(url)):
        raise InvalidRequest(
            f"cold.location is {shown(location)[:200]!r}, which is the warehouse's own place, or within it, or around "
            "it: use another bucket, prefix or folder"
        )


def _place(url: str) -> tuple[str, ...]:
    """The parts of a URL, in one spelling; of a folder without links."""
    parts = urlsplit(url)
    scheme = {"s3a": "s3", "local": "file", "": "file"}.get(parts.scheme, parts.scheme)
    path = str(Path(parts.path).resolve()) if scheme == "file" else parts.path
    return (scheme, parts.netloc, *(part for part in path.split("/") if part))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
