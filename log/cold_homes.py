"""Whether a topic's cold home is one that this warehouse can use."""

import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable
from lithify.store.home_names import check_home_name, scheme_of, spelled, storage_class
from lithify.store.homes import Homes
from lithify.store.urls import shown

__all__ = ["check_cold_home"]

log = structlog.wrap_logger(logging.getLogger("lithify.store"))


def check_cold_home(changes: Mapping[str, str | None], homes: Homes) -> None:
    """Raises InvalidRequest if a storage class is asked of a store that has none; if the cold home is the warehouse's
    own place, within it or around it: what is moved would lie where it lay; or if there is no such place, or it refuses
    access. One that does not answer is logged: it may come back."""
    url = homes.here.url
    wanted = changes.get("cold.storage.class")
    if wanted and not url.startswith("s3://"):
        raise InvalidRequest(
            f"cold.storage.class is {wanted!r}, but only S3 has storage classes, and this warehouse is {shown(url)}: "
            "use cold.location"
        )
    location = changes.get("cold.location")
    if not location or storage_class(location) is not None:  # the latter is refused with the configuration
        return
    try:
        check_home_name(location)
    except InvalidRequest as error:
        raise InvalidRequest(f"cold.location must be a place that lithify can open: {error}") from None
    if _overlap(_place(location), _place(url)):
        raise InvalidRequest(
            f"cold.location is {shown(location)[:200]!r}, which is the warehouse's own place, or within it, or around "
            "it: use another bucket, prefix or folder"
        )
    _ask(spelled(location), homes)


def _ask(location: str, homes: Homes) -> None:
    """One request, for an object that is not there."""
    try:
        homes.store(location).hasty().head("home.json")
    except (InvalidRequest, AccessDenied) as error:
        raise InvalidRequest(f"cold.location cannot be used: {error}") from error
    except Unavailable as error:
        log.warning("cold home does not answer", home=shown(location), found=str(error))


def _place(url: str) -> tuple[str, ...]:
    """The parts of a URL, in one spelling; of a folder without links."""
    parts = urlsplit(url)
    scheme = scheme_of(url) if parts.scheme else "file"
    path = str(Path(parts.path).resolve()) if scheme == "file" else parts.path
    return (scheme, parts.netloc, *(part for part in path.split("/") if part))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
