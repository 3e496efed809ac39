"""Which bodies wait for the server's leave to be sent, which costs a round trip."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from lithify.store.port import Outcome
from lithify.store.s3 import S3Store
from lithify.store.s3_clients import EXPECT_ABOVE_BYTES
from lithify.store.side_by_side import THREADS_MAX


@pytest.fixture
def sent() -> list[dict[str, Any]]:
    """The headers of what was sent."""
    return []


@pytest.fixture
def store(sent: list[dict[str, Any]]) -> S3Store:
    """Nobody listens: each request ends when it is sent."""
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1"}
    store = S3Store("bucket", "w", {**options, "config_kwargs": {"retries": {"total_max_attempts": 1}}}, lambda _: None)

    def keep(request: Any, **_: Any) -> None:
        sent.append(dict(request.headers))
        raise ConnectionClosedError(endpoint_url=request.url)

    for client in (store.conditional_client(), store.bulk_client()):
        client.meta.events.register("before-send.s3", keep)
    return store


def creates(store: S3Store, body: bytes) -> None:
    assert store.create("key", body) is Outcome.UNKNOWN


def puts(store: S3Store, body: bytes) -> None:
    client = store.bulk_client()
    with pytest.raises(ConnectionClosedError):
        client.put_object(Bucket="bucket", Key="key", Body=body)


def uploads_a_part(store: S3Store, body: bytes) -> None:
    client = store.bulk_client()
    with pytest.raises(ConnectionClosedError):
        client.upload_part(Bucket="bucket", Key="key", UploadId="id", PartNumber=1, Body=body)


@pytest.mark.parametrize("sends", [creates, puts, uploads_a_part])
@pytest.mark.parametrize(("size", "waits"), [(0, False), (10, False), (EXPECT_ABOVE_BYTES, False), (8 << 20, True)])
def test_only_large_bodies_wait(
    store: S3Store, sent: list[dict[str, Any]], sends: Callable[[S3Store, bytes], None], size: int, waits: bool
) -> None:
    sends(store, b"x" * size)
    assert ["Expect" in headers for headers in sent] == [waits] * len(sent)
    assert sent


def test_a_client_keeps_a_connection_for_each_thread_and_more(store: S3Store) -> None:
    for client in (store.conditional_client(), store.bulk_client()):
        assert client.meta.config.max_pool_connections >= THREADS_MAX + 1
