"""Opens a warehouse together with its homes (docs/rfcs/0031)."""

import os
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from lithify.store.cold import TRIED, Cold
from lithify.store.deadline import TIMEOUT_S, Deadline
from lithify.store.disk_cache import Cached, DiskCache
from lithify.store.driver import Clock
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.home_names import check_home_name, scheme_of, spelled, storage_class
from lithify.store.homes import HERE, Homes
from lithify.store.opening import open_spec, open_store
from lithify.store.port import NOT_PICKLED, Store, StoreSpec
from lithify.store.urls import shown

__all__ = [
    "CACHE",
    "CACHE_BYTES_MIN",
    "HOMES",
    "HOME_TIMEOUT_S",
    "opened_homes",
    "opened_spec",
    "opened_specs",
]

HOMES = "homes"
"""The storage option that has the options of other homes, by their URLs."""

CACHE = "cache"
"""The storage option of the cache on disk."""

HOME_TIMEOUT_S = "home_timeout_s"
"""The storage option that says how long a request to another home is waited for."""

CACHE_BYTES_MIN = 64 << 20  # an entry may have an eighth, and a fetch 8 MiB

_OF_WAREHOUSE = (HOMES, CACHE, HOME_TIMEOUT_S)
_NEAR = 0.75  # of difflib's ratio: no option of a store that we know comes so close
_TIMEOUTS = {"connect_timeout": 5, "read_timeout": 30}
_RETRIES = {"mode": "standard", "total_max_attempts": 2}  # with the timeouts: a home that is down is known in a minute
_TIMEOUT_S_MIN, _TIMEOUT_S_MAX = 1, 3_600
_CLASS = "StorageClass"


class _CacheOptions(NamedTuple):
    folder: str
    bytes_max: int
    all: bool


def opened_homes(
    url: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    is_segment: Callable[[str], bool] | None = None,
) -> Homes:
    """The warehouse under `url` as `open_store` opens it; other homes are opened when they are first asked for.

    `options["homes"]`: for a home's URL the storage options of that home. A home that is not there has those of the
    warehouse if both are of the same kind (both S3), else none. `options["cache"]`: a cache on disk (see
    docs/operations.md) of objects whose key `is_segment`; without that, of none. `options["home_timeout_s"]`: how long
    a request to another home is waited for. Makes no request. Raises InvalidRequest.
    """
    given = dict(options or {})
    for name in map(str, given):
        near = [] if name in _OF_WAREHOUSE else get_close_matches(name, _OF_WAREHOUSE, 1, _NEAR)
        if near:
            raise InvalidRequest(f"unknown storage option {name}: did you mean {near[0]}?")
    of_homes, cached = _by_url(given.pop(HOMES, None)), _cache_options(given.pop(CACHE, None))
    timeout_s = _timeout_s(given.pop(HOME_TIMEOUT_S, TIMEOUT_S))
    here = open_store(url, given, clock)
    if cached is None or is_segment is None:
        return Homes({HERE: here}, _Opener(here.url, given, of_homes, clock, timeout_s))
    cache = DiskCache(cached.folder, cached.bytes_max)

    def keeping(store: Store) -> Store:
        return Cached(store, cache, is_segment)

    opener = _Opener(here.url, given, of_homes, clock, timeout_s, keeping)
    return Homes({HERE: keeping(here) if cached.all else here}, opener, cache)


def opened_specs(specs: Mapping[str, StoreSpec]) -> Homes:
    """The homes that another process described one by one, and no others. One that is down fails when it is asked."""
    return Homes({HERE: open_spec(specs[HERE])}, _OpenerOfSpecs(specs))


def opened_spec(spec: StoreSpec) -> Homes:
    """As another process opened them, from its `Homes.spec`: others are opened as there."""
    return Homes({HERE: open_spec(spec)}, _OpenerOfSpec(spec))


class _Opener:
    """Holds options, which may be secret: it is never shown, and never leaves the process."""

    def __init__(
        self,
        here: str,
        options: Mapping[str, Any],
        of_homes: Mapping[str, Mapping[str, Any]],
        clock: Clock | None,
        timeout_s: float,
        keeping: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        self._here = here
        self._options = options
        self._of_homes = of_homes
        self._clock = clock
        self._keeping = keeping
        self.timeout_s = timeout_s
        self._deadlines: dict[str, Deadline] = {}

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_PICKLED)

    @property
    def own(self) -> Collection[str]:
        return self._of_homes.keys()

    def can_open(self, home: str) -> bool:
        return _is_home_name(home)

    def open(self, home: str) -> Store:
        check_home_name(home)
        own = self._of_homes.get(spelled(home))
        url, options = _way(home, self._here, self._options) if own is None else (home, own)
        deadline = self._deadlines.setdefault(home, Deadline(self.timeout_s))
        opened = _opened(home, deadline, lambda: open_store(url, _bounded(url, options), self._clock))
        return self._keeping(Cold(home, opened, deadline))


class _OpenerOfSpecs:
    own: Collection[str] = ()
    timeout_s = TIMEOUT_S

    def __init__(self, specs: Mapping[str, StoreSpec]) -> None:
        self._specs = specs

    def can_open(self, home: str) -> bool:
        return home in self._specs

    def open(self, home: str) -> Store:
        return _cold_of_spec(home, self._specs[home])


class _OpenerOfSpec:
    def __init__(self, spec: StoreSpec) -> None:
        self._spec = spec

    @property
    def own(self) -> Collection[str]:
        return self._spec.homes.keys()

    @property
    def timeout_s(self) -> float:
        return self._spec.timeout_s

    def can_open(self, home: str) -> bool:
        return _is_home_name(home)

    def open(self, home: str) -> Store:
        check_home_name(home)
        own = self._spec.homes.get(spelled(home))
        if own is not None:
            return _cold_of_spec(home, own)
        url, options = _way(home, self._spec.url, self._spec.options)
        like = self._spec if scheme_of(url) == scheme_of(self._spec.url) else StoreSpec(url)
        options = _bounded(url, options)
        return _cold_of_spec(home, replace(like, url=url, options=options, homes={}, timeout_s=self.timeout_s))


_colds: dict[tuple[str, int], Cold] = {}
_deadlines: dict[tuple[str, bytes, float], Deadline] = {}


def _cold_of_spec(home: str, spec: StoreSpec) -> Cold:
    """Once per process and spec, as `open_spec`: the limit of requests is that of the process."""
    timeout_s = spec.timeout_s or TIMEOUT_S
    # SUBTLE! By the spec, too: homes of two warehouses may have one name behind two endpoints, as storage classes do,
    # and only one of them is down. Test: tests/store/test_homes_of_specs.py
    way = msgspec.json.encode(spec, order="deterministic")
    deadline = _deadlines.setdefault((home, way, timeout_s), Deadline(timeout_s))
    opened = _opened(home, deadline, lambda: open_spec(spec))
    name = home, id(opened)  # `open_spec` keeps what it opened
    found = _colds.get(name)
    return _colds.setdefault(name, Cold(home, opened, deadline)) if found is None else found


def _opened(home: str, deadline: Deadline, opens: Callable[[], Store]) -> Store:
    """Some filesystems connect when they are opened. Others do not, so it proves nothing that it succeeds."""
    try:
        return deadline.run(opens, proves=False, trial=lambda: opens().head(TRIED))
    except Unavailable as error:
        raise Unavailable(f"home {shown(home)}: {error}") from error


def _is_home_name(home: str) -> bool:
    try:
        check_home_name(home)
    except InvalidRequest:
        return False
    return True


def _way(home: str, here: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The URL and the options of a home that has none of its own, for the warehouse at `here` with `options`."""
    wanted = storage_class(home)
    if wanted is None:
        return home, options if scheme_of(home) == scheme_of(here) else {}
    if scheme_of(here) != "s3":
        raise InvalidRequest(
            f"home {home}: only S3 has storage classes, and this warehouse is {shown(here)}: name its cold home by a "
            "URL"
        )
    return here, {**options, "s3_additional_kwargs": {**_mapping(options, "s3_additional_kwargs"), _CLASS: wanted}}


def _by_url(given: Any) -> dict[str, Mapping[str, Any]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        raise InvalidRequest("storage option homes has for each home's URL a mapping of that home's storage options")
    for home in map(str, given):
        check_home_name(home)
        if home == HERE or storage_class(home) is not None:
            raise InvalidRequest(f"storage option homes: {home!r} takes no options of its own: it has the warehouse's")
        if scheme_of(home) == "s3":
            _check_s3(home, given[home])
    return {spelled(str(home)): dict(options) for home, options in given.items()}


def _check_s3(home: str, options: Mapping[str, Any]) -> None:
    """Now, and not when it is first opened, perhaps in days."""
    from lithify.store.s3_options import S3Options

    try:
        S3Options(options)
    except InvalidRequest as error:
        raise InvalidRequest(f"storage option homes, {shown(home)}: {error}") from error


def _cache_options(given: Any) -> _CacheOptions | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not {"dir", "bytes"} <= given.keys() <= {"dir", "bytes", "homes"}:
        raise InvalidRequest("storage option cache has a 'dir', 'bytes', and perhaps 'homes' (cold or all)")
    folder, size, which = given["dir"], given["bytes"], given.get("homes", "cold")
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidRequest("storage option cache.dir is a folder of this machine, as /var/cache/lithify")
    if isinstance(size, str) and size.isdecimal():
        size = int(size)  # as the command line gives it
    if type(size) is not int or size < CACHE_BYTES_MIN:
        raise InvalidRequest(f"storage option cache.bytes is a number of bytes, at least {CACHE_BYTES_MIN:,}")
    if which not in ("cold", "all"):
        raise InvalidRequest("storage option cache.homes is cold (all homes but the warehouse) or all")
    return _CacheOptions(os.fspath(folder), size, which == "all")


def _timeout_s(given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not _TIMEOUT_S_MIN <= seconds <= _TIMEOUT_S_MAX:
        raise InvalidRequest(
            f"storage option {HOME_TIMEOUT_S} is a number of seconds from {_TIMEOUT_S_MIN:g} to {_TIMEOUT_S_MAX:g}"
        )
    return seconds


def _bounded(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """With timeouts and attempts that end soon, unless the user chose others."""
    if scheme_of(url) != "s3":
        return dict(options)
    return {**options, "config_kwargs": {**_TIMEOUTS, "retries": _RETRIES, **_mapping(options, "config_kwargs")}}


def _mapping(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Whatever else it is, is refused where it is used."""
    value = options.get(name)
    return dict(value) if isinstance(value, Mapping) else {}
