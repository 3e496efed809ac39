"""A glimpse of the keys under a prefix is asked for once, and never fails (docs/rfcs/0034)."""

import pytest

from lithify.store import s3
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import UNKNOWN_PAGE, Glimpse
from lithify.store.s3 import S3Store
from lithify.testing.server import S3Server
from tests.store.answering import PAGE, PAGES, answered

REFUSAL = "<Error><Code>{}</Code><Message>no</Message><RequestId>1</RequestId></Error>"


@pytest.fixture
def store(lithify_s3: S3Server, bucket: str) -> S3Store:
    return S3Store(bucket, "p", lithify_s3.options)


def test_it_shows_what_is_there_and_whether_that_is_all(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "GLIMPSE_KEYS", 3)
    assert store.glimpse("t/a/") == store.list("t/a/")
    for number in range(5):
        store.put(f"t/a/{number}", b"x")
        store.put(f"t/b/{number}", b"x")
        page = store.glimpse("t/a/")
        assert [each.key for each in page.objects] == [f"t/a/{shown}" for shown in range(min(number + 1, 3))]
        assert (page.token is None) == (number < 3)


@pytest.mark.parametrize("page", [*PAGES, *map(REFUSAL.format, ("AccessDenied", "SlowDown", "NotImplemented"))])
@pytest.mark.parametrize("status", [200, 400, 403, 404, 429, 500, 501, 503])
def test_whatever_it_fails_with_it_is_not_asked_for_again(
    status: int, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks tell more, and have deadlines of their own. For a minute no other is asked for: each may take seconds."""
    now_ms = 5_000
    monkeypatch.setattr(s3, "monotonic_ms", lambda: now_ms)
    store, asked = answered(status, page, {"content-length": str(len(page))})
    store._glimpses_from_ms = 0  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(store, "bulk_client", lambda: pytest.fail("that one repeats, and waits for a minute"))
    assert store.glimpses
    assert store.glimpse("t/a/") == UNKNOWN_PAGE
    assert len(asked) == 1
    assert not store.glimpses
    assert Driver(store).answer(Glimpse("t/a/")) == UNKNOWN_PAGE
    assert len(asked) == 1
    now_ms += 60_000
    assert store.glimpses


def test_where_an_outage_is_to_be_detected_soon_nothing_is_glimpsed() -> None:
    """A search would wait twice."""
    store, _ = answered(200, PAGE)
    assert not store.hasty().glimpses


def test_it_is_counted_as_a_listing_and_a_near_store_is_not_asked() -> None:
    far, _ = answered(200, PAGE, {"content-length": str(len(PAGE))})
    far._glimpses_from_ms = 0  # pyright: ignore[reportPrivateUsage]
    for store, asked in ((Metered(far), 1), (Metered(MemoryStore()), 0)):
        assert Driver(store).answer(Glimpse("t/a/")) == UNKNOWN_PAGE
        assert store.requests().lists == asked
