"""Homes in buckets of a real S3 server (tests/rgw.py). These tests are soak."""

from collections.abc import Iterator

import pytest
import xxhash

from lithify.store.copying import copy
from lithify.store.driver import new_id
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.opening_homes import opened_homes
from lithify.store.owners import claim_home, owner_key, owner_of_home, require_owner
from tests.endpoint import Endpoint
from tests.rgw import Rgw

OLD, NEW = (f"users/0123456789abcdef/00000/segments/{number}.parquet" for number in (1, 2))
OWNER = owner_key("users", "0123456789abcdef")
BODY = bytes(range(251)) * 110_000
SUM = xxhash.xxh3_64_hexdigest(BODY)


@pytest.fixture(scope="module")
def user(rgw: Rgw) -> Iterator[Endpoint]:
    made = rgw.user(f"homes-{new_id()}")
    yield made
    made.close()


@pytest.fixture
def buckets(user: Endpoint) -> Iterator[tuple[str, str]]:
    made = user.create_bucket(), user.create_bucket()
    yield made
    for name in made:
        user.delete_bucket(name)


@pytest.fixture
def homes(user: Endpoint, buckets: tuple[str, str]) -> Iterator[Homes]:
    opened = opened_homes(f"s3://{buckets[0]}/w", user.options)
    yield opened
    opened.close()


@pytest.mark.parametrize("streamed", [False, True], ids=["put whole", "in parts"])
@pytest.mark.parametrize("home", ["class:STANDARD", "bucket"])
def test_there_and_back(homes: Homes, buckets: tuple[str, str], home: str, streamed: bool) -> None:
    """No byte of one bucket's copy into the other is written by this process."""
    name = f"s3://{buckets[1]}/c" if home == "bucket" else home
    if streamed:
        output = homes.here.output(OLD)
        output.write(BODY)
        output.close()
    else:
        homes.here.put(OLD, BODY)
    copy(homes, (HERE, OLD), (name, NEW), size=len(BODY), checksum=SUM)
    cold = homes.store(name)
    assert cold.requests().bytes_written == 0
    assert streamed or cold.requests().bytes_read == 0, "RGW tells the checksum of an object that was put whole"
    assert cold.read(NEW, 0, len(BODY)) == BODY
    homes.here.delete([OLD])
    copy(homes, (name, NEW), (HERE, OLD), size=len(BODY), checksum=SUM)
    assert homes.here.read(OLD, 0, len(BODY)) == BODY


def test_between_a_folder_and_a_bucket(user: Endpoint, buckets: tuple[str, str], tmp_path: object) -> None:
    cold = f"s3://{buckets[1]}/c"
    homes = opened_homes(f"file://{tmp_path}/w", {"homes": {cold: user.options}})
    claim_home(homes.store(cold), OWNER, homes.here)
    homes.here.put(OLD, BODY)
    copy(homes, (HERE, OLD), (cold, NEW), size=len(BODY), checksum=SUM)
    copy(homes, (cold, NEW), (HERE, OLD + "x"), size=len(BODY), checksum=SUM)
    assert homes.here.read(OLD + "x", 0, len(BODY)) == BODY
    homes.here.put(OLD, BODY[:-1] + b"!")
    homes.store(cold).delete([NEW])
    with pytest.raises(Corrupt):
        copy(homes, (HERE, OLD), (cold, NEW), size=len(BODY), checksum=SUM)
    assert homes.store(cold).head(NEW) is None
    with pytest.raises(NotFound):
        copy(homes, (HERE, NEW), (cold, NEW), size=len(BODY), checksum=SUM)
    homes.close()


def test_owners(homes: Homes, buckets: tuple[str, str]) -> None:
    cold = homes.store(f"s3://{buckets[1]}/c")
    claim_home(cold, OWNER, homes.here)
    claim_home(cold, OWNER, homes.here)
    with pytest.raises(InvalidRequest, match="belongs to"):
        claim_home(cold, OWNER, MemoryStore("copy"))
    require_owner(cold, OWNER, homes.here)
    owner = owner_of_home(cold, OWNER)
    assert owner is not None
    assert (owner.warehouse, list(owner.stamp)) == (homes.here.url, ["modified_ms"])


def test_a_home_that_is_down_or_missing_is_named(user: Endpoint, homes: Homes) -> None:
    with pytest.raises(InvalidRequest, match=r"^home s3://nowhere-at-all/c: .*NoSuchBucket"):
        homes.store("s3://nowhere-at-all/c").read(OLD, 0, 1)
    options = {**user.options, "client_kwargs": {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1"}}
    down = opened_homes(homes.here.url, {**user.options, "homes": {"s3://down/c": options}})
    with pytest.raises(Unavailable, match=r"^home s3://down/c: "):
        down.store("s3://down/c").read(OLD, 0, 1)
    assert down.here.head(OLD) is None, "the warehouse answers"
    down.close()
