"""Homes are opened by name, once each, with limits of their own, and here as in another process."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fsspec.registry import known_implementations

from lithify.manifest.config import validate
from lithify.manifest.homes import HERE
from lithify.store.cold import Cold
from lithify.store.deadline import Deadline
from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.fetching import APART_THREADS_MAX, soon
from lithify.store.home_names import (
    SAME_SCHEMES,
    STORAGE_CLASSES,
    check_home_name,
    physical,
    scheme_of,
    spelled,
    storage_class,
)
from lithify.store.homes import Homes, only_here
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.opening import open_store
from lithify.store.opening_homes import opened_homes, opened_spec, opened_specs
from lithify.store.owners import owner_key_beside
from lithify.store.port import Store, StoreSpec
from lithify.store.s3 import S3Store
from lithify.store.wrapped import Wrapped, innermost
from lithify.testing.front import Deed, Front
from lithify.testing.server import S3Server

KEY = "users/0123456789abcdef/00000/segments/1.parquet"


def s3_of(store: Store) -> S3Store:
    found = innermost(store)
    assert isinstance(found, S3Store)
    return found


@pytest.mark.parametrize(
    "home", ["", "s3://b/p", "file:///mnt/cold", "gs://b/p", *(f"class:{c}" for c in STORAGE_CLASSES)]
)
def test_names_that_can_be_opened(home: str) -> None:
    check_home_name(home)
    assert home in opened_homes("s3://bucket/p").names


@pytest.mark.parametrize(
    ("home", "why"),
    [
        ("class:GLACIER", "is an archive.*GLACIER_IR"),
        ("class:DEEP_ARCHIVE", "is an archive.*GLACIER_IR"),
        ("class:standard_ia", "unknown; known are STANDARD, STANDARD_IA"),
        ("class:", "unknown"),
        ("cold", "is not a URL"),
        ("s3://", "is not a URL"),
        ("teleport://b", "teleport:// is not a known kind of store"),
        ("s3://AKIA:hush@bucket/p", "put credentials into storage_options"),
    ],
)
def test_names_that_cannot(home: str, why: str) -> None:
    homes = opened_homes("s3://bucket/p")
    assert home not in homes.names
    with pytest.raises(InvalidRequest, match=why) as caught:
        check_home_name(home)
    assert "hush" not in str(caught.value)
    with pytest.raises(InvalidRequest, match=r"cannot reach home .*: upgrade lithify") as caught:
        homes.store(home)
    assert "hush" not in str(caught.value)


def test_where_listing_and_deleting_happen() -> None:
    assert [physical(each) for each in ("", "class:STANDARD_IA", "s3://b/p")] == [HERE, HERE, "s3://b/p"]


def test_a_store_alone_and_given_stores_open_no_others() -> None:
    cold = MemoryStore()
    homes = Homes({HERE: MemoryStore(), "cold": cold})
    assert homes.store("cold") is cold
    assert sorted(homes.names) == ["", "cold"]
    assert "s3://b/p" not in homes.names
    assert "s3://b/p" not in only_here(cold).names


def test_each_is_opened_once_by_however_many_threads() -> None:
    homes = opened_homes("memory://opened-once")
    barrier = threading.Barrier(8)

    def ask(_: int) -> Store:
        barrier.wait()
        return homes.store("memory://opened-once-cold")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(ask, range(8))))) == 1
    assert [home for home, _ in homes] == ["", "memory://opened-once-cold"]


def test_a_class_is_the_same_place_written_with_that_class(lithify_s3: S3Server, bucket: str) -> None:
    options = {**lithify_s3.options, "s3_additional_kwargs": {"ServerSideEncryption": "AES256"}}
    homes = opened_homes(f"s3://{bucket}/p", options)
    cold = homes.store("class:STANDARD_IA")
    cold.put("one", b"1")
    output = cold.output("two")
    output.write(b"2" * (9 << 20))
    output.close()
    client = s3_of(homes.here).bulk_client()
    for key in ("one", "two"):
        found = client.head_object(Bucket=bucket, Key=f"p/{key}")
        assert (found["StorageClass"], found["ServerSideEncryption"]) == ("STANDARD_IA", "AES256")
    assert homes.here.read("one", 0, 1) == b"1"
    homes.here.put("three", b"3")
    assert "StorageClass" not in client.head_object(Bucket=bucket, Key="p/three")
    assert s3_of(cold).bulk_client() is not client
    homes.close()


def test_only_s3_has_classes(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="only S3 has storage classes, and this warehouse is file://"):
        opened_homes(tmp_path).store("class:STANDARD_IA")


def test_options_of_a_home_are_its_own_or_those_of_a_warehouse_of_its_kind(tmp_path: Path) -> None:
    def key_of(homes: Homes, home: str) -> str | None:
        return s3_of(homes.store(home))._options.secrets().get("key")

    secrets = {"key": "hot", "secret": "x"}
    own = {"s3://other/p": {"key": "cold", "secret": "y"}}
    homes = opened_homes("s3://bucket/p", {**secrets, "homes": own})
    assert key_of(homes, "s3://other/p/") == "cold"
    assert key_of(homes, "s3://third/p") == "hot"
    homes.store(f"file://{tmp_path}")  # which takes no options
    assert key_of(opened_homes(tmp_path, {"homes": own}), "s3://other/p") == "cold"
    assert key_of(opened_homes(tmp_path, {"homes": own}), "s3://third/p") is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("s3://b", "for each home's URL a mapping"),
        ({"s3://b": "key"}, "for each home's URL a mapping"),
        ({"cold": {}}, "is not a URL"),
        ({"class:STANDARD_IA": {}}, "takes no options of its own"),
        ({"s3://my": {"bucket/x": {"key": "hush"}}}, r"homes, s3://my: unknown storage option bucket/x; known are"),
        ({"s3://b/p": {"key": 1234, "secret": "x"}}, "storage option key must be text"),
    ],
)
def test_wrong_options_of_homes(given: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        opened_homes("s3://bucket/p", {"homes": given})


@pytest.mark.parametrize("url", ["s3://bucket/p", "memory://near"])
@pytest.mark.parametrize(
    ("given", "meant"), [("home_timeout", "home_timeout_s"), ("home", "homes"), ("caches", "cache")]
)
def test_a_misspelt_option_of_the_warehouse(url: str, given: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"unknown storage option {given}: did you mean {meant}"):
        opened_homes(url, {given: 3})


def test_another_process_opens_the_same_homes(lithify_s3: S3Server, bucket: str, tmp_path: Path) -> None:
    """Its variables have the credentials; everything else travels."""
    own = {"s3://elsewhere/p": {**lithify_s3.options, "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}}
    homes = opened_homes(f"s3://{bucket}/p", {**lithify_s3.options, "homes": own})
    assert homes.spec().homes == {}
    text = msgspec.json.encode(homes.spec(["s3a://elsewhere/p/"]))
    assert b"secret" not in text
    there = opened_spec(msgspec.json.decode(text, type=StoreSpec))
    for home in ("s3://elsewhere/p", "s3://third/p", "class:STANDARD_IA", f"file://{tmp_path}"):
        assert there.store(home).url == homes.store(home).url
        assert there.store(home).endpoint_url == homes.store(home).endpoint_url
        assert there.store(home).apart == home
    assert s3_of(there.store("class:STANDARD_IA"))._options.additional == {"StorageClass": "STANDARD_IA"}
    one_by_one = opened_specs({home: store.spec() for home, store in homes})
    assert all(home in one_by_one.names for home, _ in homes)
    assert "s3://fourth/p" not in one_by_one.names
    assert opened_specs({"": homes.here.spec(), "s3://third/p": homes.store("s3://third/p").spec()}).store(
        "s3://third/p"
    ) is one_by_one.store("s3://third/p"), "one limit for all tasks of a process"


def test_what_opens_homes_is_not_pickled() -> None:
    homes = opened_homes("s3://bucket/p", {"key": "AKIA", "secret": "hush"})
    with pytest.raises(TypeError):
        pickle.dumps(homes)


def test_derived_homes_are_opened_on_first_use_too() -> None:
    homes = opened_homes("memory://derived")
    counted = homes.derived(Metered)
    cold = counted.store("memory://derived-cold")
    cold.put("k", b"x")
    assert cold.requests().puts == 1
    assert counted.store("memory://derived-cold") is cold
    assert "cold" not in counted.names
    assert [home for home, _ in homes] == ["", "memory://derived-cold"]


class Failing(Wrapped):
    def __init__(self, error: Exception) -> None:
        super().__init__(MemoryStore())
        self.error = error

    def read(self, key: str, start: int, length: int) -> bytes:
        raise self.error


@pytest.mark.parametrize("kind", [Unavailable, AccessDenied, InvalidRequest])
def test_errors_name_the_home(kind: type[LithifyError]) -> None:
    with pytest.raises(kind, match=r"^home s3://far/p: down$") as caught:
        Cold("s3://far/p", Failing(kind("down"))).read(KEY, 0, 1)
    assert type(caught.value) is kind


@pytest.mark.parametrize("error", [NotFound("gone", KEY), Corrupt("broken", KEY)])
def test_errors_about_an_object_stay_as_they_are(error: LithifyError) -> None:
    """As long as the home has an owner; else it may not be mounted."""
    store = Failing(error)
    store.put(owner_key_beside(KEY), b"{}")
    with pytest.raises(type(error)) as caught:
        Cold("s3://far/p", store).read(KEY, 0, 1)
    assert caught.value is error


@pytest.mark.parametrize("home", ["s3", "class:STANDARD_IA"])
@pytest.mark.parametrize("method", ["get", "read", "head"])
def test_an_archived_object_is_unavailable_and_says_what_to_do(
    lithify_s3: S3Server, bucket: str, home: str, method: str
) -> None:
    rule = lambda _: Deed(forward=False, status=403, code="InvalidObjectState")  # noqa: E731
    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        homes = opened_homes(f"s3://{bucket}/p", front.options(lithify_s3.options))
        name = f"s3://{bucket}/cold" if home == "s3" else home
        ask = getattr(homes.store(name), method)
        with pytest.raises(Unavailable, match=f"^home {name}: .*in an archive. Restore it .*lifecycle rule") as caught:
            ask(KEY, *((0, 1) if method == "read" else ()))
        assert type(caught.value) is Unavailable
        assert len(front.seen) == 1, "it stays archived however often it is asked for"
        homes.close()


class Stalled(Wrapped):
    """Answers no read before `goes_on`."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.goes_on = threading.Event()
        self.waiting = threading.Semaphore(0)

    @property
    def far(self) -> bool:
        return True

    def read(self, key: str, start: int, length: int) -> bytes:
        self.waiting.release()
        assert self.goes_on.wait(60)
        return super().read(key, start, length)


def test_requests_have_a_limit_and_whoever_waits_for_it_too_long_hears_of_it() -> None:
    stalled = Stalled()
    stalled.put(KEY, b"xy")
    cold = Cold("s3://far/p", stalled, Deadline(requests_max=2, turn_s=0.0))
    with ThreadPoolExecutor(2) as pool:
        begun = [pool.submit(cold.read, KEY, 0, 1) for _ in range(2)]
        for _ in begun:
            assert stalled.waiting.acquire(timeout=60)
        with pytest.raises(Unavailable, match="home s3://far/p: it is slow: its 2 requests at a time are under way"):
            cold.head(KEY)
        stalled.goes_on.set()
        assert [each.result() for each in begun] == [b"x", b"x"]
    assert cold.head(KEY) is not None, "a turn is given back"


def test_fetches_of_a_stalled_home_take_no_thread_from_the_warehouse() -> None:
    stalled = Stalled()
    stalled.put(KEY, b"xy")
    cold, name = Cold("s3://far/p", stalled, Deadline(requests_max=64)), threading.current_thread().name
    waiting = [soon(lambda: cold.read(KEY, 0, 1), far=True, apart=cold.apart) for _ in range(3 * APART_THREADS_MAX)]
    for _ in range(APART_THREADS_MAX):
        assert stalled.waiting.acquire(timeout=60)
    hot = [soon(lambda: threading.current_thread().name, far=True) for _ in range(4)]
    assert name not in {each() for each in hot}, "a thread of the warehouse's made it, and not the caller"
    stalled.goes_on.set()
    assert {each() for each in waiting} == {b"x"}


def test_calls_side_by_side_of_a_stalled_home_take_no_thread_from_the_warehouse() -> None:
    stalled = Stalled()
    cold = Cold("s3://far/p", stalled)
    barrier = threading.Barrier(2)
    assert len(cold.side_by_side([lambda: barrier.wait(60)] * 2)) == 2
    cold.close()
    near = Cold("file:///cold", MemoryStore())
    assert near.side_by_side([threading.current_thread]) == [threading.current_thread()]


def test_a_wrapper_passes_everything_on() -> None:
    """What `Store` has by itself would hide what the store inside says."""
    methods = {name for name in dir(Store) if not name.startswith("_")} - {"same_as", "once", "view"}  # view reads
    assert methods <= vars(Wrapped).keys()
    assert Wrapped(open_store("memory://wrapped")).same_as is not None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("s3://b/p", "s3://b/p"),
        ("s3://b/p/", "s3://b/p"),
        ("s3://b//p", "s3://b/p"),
        ("s3://b/./p/.", "s3://b/p"),
        ("S3://b/p", "s3://b/p"),
        ("s3a://b/p", "s3://b/p"),
        ("s3://b/P", "s3://b/P"),
        ("s3://b/", "s3://b"),
        ("file:///mnt/cold/", "file:///mnt/cold"),
        ("FILE:///mnt//cold", "file:///mnt/cold"),
        ("local:///mnt/cold", "file:///mnt/cold"),
        ("file:////mnt/./cold//", "file:///mnt/cold"),
        ("file:///mnt/a/../cold", "file:///mnt/a/../cold"),
        ("file://localhost/mnt/cold", "file:///mnt/cold"),
        ("local://LOCALHOST//mnt/cold/", "file:///mnt/cold"),
        ("hdfs://localhost/mnt/cold", "hdfs://localhost/mnt/cold"),
        ("GS://b/p//", "gs://b/p"),
        ("gcs://b/p", "gs://b/p"),
        ("az://c/p/", "abfs://c/p"),
        ("ABFSS://c/p", "abfs://c/p"),
        ("ssh://host/p", "sftp://host/p"),
        ("arrow_hdfs://host/p", "hdfs://host/p"),
        ("adl://c/p", "adl://c/p"),
        ("class:STANDARD_IA", "class:STANDARD_IA"),
        ("", ""),
    ],
)
def test_a_home_has_one_spelling(given: str, kept: str) -> None:
    assert spelled(given) == spelled(kept) == kept
    if storage_class(given) is None:
        assert validate({"cold.location": given})["cold.location"] == kept


def test_schemes_that_fsspec_opens_in_one_way_are_one() -> None:
    """Whatever it learns of later fails here, until somebody has decided."""
    two_places = {"https", "ocilake"}  # another port; another service
    no_places = {"blockcache", "cached", "asyncwrapper", "async_wrapper", "jlab", "jupyter"}
    opened: dict[str, set[str]] = {}
    for scheme, known in known_implementations.items():
        if scheme not in no_places | two_places:
            opened.setdefault(known["class"], set()).add(scheme_of(f"{scheme}://x"))
    assert {kind: schemes for kind, schemes in opened.items() if len(schemes) > 1} == {}
    assert all(scheme_of(f"{one}://x") != one for one in SAME_SCHEMES)


@pytest.mark.parametrize("given", ["S3A://other//p/", "s3://other/p", "s3://other/./p"])
def test_its_options_are_found_however_it_is_spelled(given: str) -> None:
    homes = opened_homes("s3://bucket/p", {"homes": {given: {"key": "cold", "secret": "y"}}})
    for home in ("s3://other/p", "s3://other/p/"):
        assert s3_of(homes.store(home))._options.secrets().get("key") == "cold"
