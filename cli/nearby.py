"""What somebody may have meant who named a warehouse, or a topic, that is not there."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lithify.store.errors import LithifyError
from lithify.store.port import Folders

if TYPE_CHECKING:
    from lithify.admin.client import Admin
    from lithify.log.warehouse import Warehouse

__all__ = ["place_hint", "topic_like"]

_LOOKED_AT_MAX = 16  # folders, each for a listing


def topic_like(admin: "Admin", name: str) -> str | None:
    """The live topic whose name is most like it."""
    return next(_alike(name, (each.topic for each in admin.topics().items)), None)


def place_hint(url: str, options: Mapping[str, Any]) -> str | None:
    """Which warehouse is close to `url`, where there is none; or, of folders, what is there instead."""
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return _of_folder(Path(rest))
    if scheme == "s3" and "/" in rest:
        parent, _, last = url.rstrip("/").rpartition("/")
        with suppress(LithifyError), _opened(parent, options) as above:
            return _meant((f"{parent}/{name}" for name in _alike(last, above.driver.answer(Folders("")))), options)
    return None


def _of_folder(path: Path) -> str | None:
    there = path
    while not there.is_dir() and there != there.parent:
        there = there.parent
    missing = path.relative_to(there).parts
    inside = _folders_in(there)
    if not missing:
        nearby = [path / name for name in inside] + [path.parent]
    else:
        nearby = [there.joinpath(name, *missing[1:]) for name in _alike(missing[0], inside)] + [there]
    meant = _meant((str(folder) for folder in nearby[:_LOOKED_AT_MAX]), {})
    if missing:
        return meant or f"the nearest folder that exists is {there}."
    return meant or "that folder exists, but it is not a warehouse."


def _meant(urls: Iterable[str], options: Mapping[str, Any]) -> str | None:
    for url in urls:
        with suppress(LithifyError), _opened(url, options) as found:
            if found.begun:
                return f"did you mean {found.url}?"
    return None


def _opened(url: str, options: Mapping[str, Any]) -> "Warehouse":
    from lithify.log import warehouse

    return warehouse.open(url, storage_options=options or None)


def _folders_in(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []


def _alike(name: str, names: Iterable[str]) -> Iterator[str]:
    """Those most like `name` first, whatever their case."""
    folded: dict[str, str] = {each.casefold(): each for each in names if each != name}
    for found in get_close_matches(name.casefold(), folded, n=3):
        yield folded[found]
