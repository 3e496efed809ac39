"""What a worker knows of homes that it opens from descriptions of stores, of one warehouse or several."""

import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from lithify.store import opening_homes
from lithify.store.cold import Cold
from lithify.store.deadline import Deadline
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.opening_homes import opened_spec, opened_specs
from lithify.store.owners import owner_key_beside
from lithify.store.port import HERE, StoreSpec
from lithify.testing.server import S3Server
from tests.clock import HandClock
from tests.cluster.standalone import free_port

KEY = "users/0123456789abcdef/00000/segments/1.parquet"


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening_homes, "_deadlines", {})
    monkeypatch.setattr(opening_homes, "_colds", {})


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and answers nothing."""
    with socket.socket() as listens:
        listens.bind(("127.0.0.1", 0))
        listens.listen(64)
        yield listens


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def spec_of(url: str, endpoint_url: str) -> StoreSpec:
    client = {"endpoint_url": endpoint_url, "region_name": "us-east-1"}
    return StoreSpec(url, {"key": "k", "secret": "s", "client_kwargs": client}, timeout_s=1)


@pytest.mark.parametrize("home", ["class:STANDARD_IA", None])
def test_a_home_that_is_down_spares_none_of_the_same_name_elsewhere(lithify_s3: S3Server, home: str | None) -> None:
    bucket = lithify_s3.create_bucket()
    url = f"s3://{bucket}/warehouse"
    home = home or f"s3://{bucket}/cold"
    up = opened_spec(spec_of(url, lithify_s3.endpoint_url)).store(home)
    down = opened_spec(spec_of(url, f"http://127.0.0.1:{free_port()}")).store(home)
    up.put(owner_key_beside(KEY), b"{}")
    for _ in range(2):
        with pytest.raises(Unavailable, match="onnect"):
            down.head(KEY)
        assert up.head(KEY) is None


def test_a_home_that_is_down_keeps_nobody_from_the_others(lithify_s3: S3Server) -> None:
    """A worker's order names several homes."""
    bucket = lithify_s3.create_bucket()
    url, cold = f"s3://{bucket}/warehouse", f"s3://{bucket}/cold"
    specs = {
        HERE: spec_of(url, lithify_s3.endpoint_url),
        cold: spec_of(cold, f"http://127.0.0.1:{free_port()}"),
    }
    for _ in range(2):
        homes = opened_specs(specs)
        assert homes.here.get(KEY) is None
        with pytest.raises(Unavailable, match="onnect"):
            homes.store(cold).head(KEY)
    with pytest.raises(InvalidRequest):
        homes.store(f"s3://{bucket}/other")


def test_a_home_that_hangs_is_away_however_often_it_is_opened(
    silent: socket.socket, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a client was made is no answer: not in the background, either."""
    monkeypatch.setattr(opening_homes, "Deadline", partial(Deadline, clock=clock))
    home = "s3://cold/homes"
    own = spec_of(home, f"http://127.0.0.1:{silent.getsockname()[1]}")
    spec = StoreSpec("memory://w", homes={home: own}, timeout_s=1)
    store = opened_spec(spec).store(home)
    assert isinstance(store, Cold)
    with pytest.raises(Unavailable, match="no answer within 1 s"):
        store.head(KEY)
    clock.now_ms += 60_000  # time for a trial
    with pytest.raises(Unavailable, match="does not answer"):
        opened_spec(spec).store(home)
    silent.close()
    for thread in threading.enumerate():
        if thread.name == "lithify-home":
            thread.join(60)
    assert store.deadline.away
