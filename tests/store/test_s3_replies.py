"""What is not S3's own answer proves nothing: a proxy's 404 is no absence, its 200 no success, its 403 no refusal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.port import Outcome
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front
from lithify.testing.server import S3Server
from tests.store.answering import DATE, PAGE, PAGES, answered

STATUSES = [
    200,
    204,
    206,
    301,
    302,
    307,
    308,
    400,
    401,
    403,
    404,
    405,
    407,
    410,
    412,
    413,
    416,
    429,
    500,
    501,
    503,
    530,
]


def asks_of(store: S3Store) -> dict[str, Callable[[], Any]]:
    return {
        "get": lambda: store.get("k"),
        "head": lambda: store.head("k"),
        "read": lambda: store.read("k", 0, 9),
        "list": lambda: store.list(""),
        "folders": lambda: store.folders(""),
        "put": lambda: store.put("k", b"body"),
        "batch": lambda: store.delete(["k", "l"]),
        "output": lambda: store.output("k").close(),
        "stale": lambda: store.remove_stale_temporaries(bool),
    }


def check_foreign(status: int, body: str, headers: dict[str, str] | None = None) -> None:
    store, asked = answered(status, body, headers)
    for ask in asks_of(store).values():
        asked.clear()
        with pytest.raises(Unavailable, match=r"s3://bucket/p.*again"):
            ask()
        assert 1 <= len(asked) <= 8
    if body or status not in (200, 204):
        with pytest.raises(Unavailable, match=r"s3://bucket/p.*again"):
            store.delete(["k"])
    asked.clear()
    assert store.create("k", b"body") is Outcome.UNKNOWN
    assert asked == ["PUT"]


@pytest.mark.slow
@pytest.mark.parametrize("status", STATUSES)
def test_a_page_of_somebody_elses_proves_nothing(status: int) -> None:
    for page in PAGES:
        check_foreign(status, page, {"content-length": str(len(page))})


MARKUP = st.text(st.sampled_from("<>/?!= \n\"'&;abErrorCodeNoSuchKeyhtml"), max_size=200)


@pytest.mark.slow
@given(
    st.sampled_from(STATUSES),
    MARKUP | st.text(max_size=50),
    st.dictionaries(
        st.sampled_from(["content-range", "x-amz-bucket-region", "location", "retry-after", "last-modified"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    ),
)
def test_no_answer_whatever_escapes_the_tree_of_errors(status: int, body: str, headers: dict[str, str]) -> None:
    store, _ = answered(status, body, headers)
    for name, ask in {**asks_of(store), "delete": lambda: store.delete(["k"])}.items():
        try:
            ask()
        except Unavailable:
            continue
        assert name == "delete", "without S3's marks nothing succeeds but to delete, whose success has none"
    assert store.create("k", b"body") is Outcome.UNKNOWN


@pytest.mark.parametrize("headers", [{}, {"etag": '"e"'}, {"last-modified": "Sat, 21 Nov 2026 10:00:00 GMT"}])
def test_a_sign_in_page_with_status_200_is_no_object(headers: dict[str, str]) -> None:
    check_foreign(200, PAGE, {"content-length": str(len(PAGE)), **({} if "etag" in headers else headers)})
    store, _ = answered(200, PAGE, {"content-length": str(len(PAGE)), **headers})
    for ask in (lambda: store.get("k"), lambda: store.head("k"), lambda: store.read("k", 0, 1)):
        with pytest.raises(Unavailable, match="not S3's own"):
            ask()


def test_a_body_without_an_end_is_no_object() -> None:
    """Neither a length nor chunks: it would end where the connection does."""
    store, _ = answered(200, "{}", {"etag": '"e"', "last-modified": "Sat, 21 Nov 2026 10:00:00 GMT"})
    with pytest.raises(Unavailable, match="not S3's own"):
        store.get("k")


@pytest.mark.slow
@pytest.mark.parametrize("status", [404, 301, 403, 200])
def test_a_passing_page_is_asked_past(status: int, lithify_s3: S3Server, bucket: str) -> None:
    """Three such answers, then the store's own: what is there is found, and what is not is absent."""
    with Front(lithify_s3.endpoint_url) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
        store.put("k", b"0123456789")

        def after_pages(ask: Callable[[], Any]) -> Any:
            front.plan(*[Deed(forward=False, status=status, body=PAGE, kind="text/html")] * 3)
            return ask()

        found = after_pages(lambda: store.get("k"))
        assert found.body == b"0123456789"
        assert after_pages(lambda: store.head("k")).size == 10
        assert after_pages(lambda: store.read("k", 3, 4)) == b"3456"
        assert [each.key for each in after_pages(lambda: store.list("")).objects] == ["k"]
        after_pages(lambda: store.put("l", b"x"))
        after_pages(lambda: store.delete(["k"]))
        assert after_pages(lambda: store.get("k")) is None
        assert after_pages(lambda: store.head("k")) is None
        with pytest.raises(NotFound):
            after_pages(lambda: store.read("k", 0, 1))


def test_a_missing_bucket_is_no_absence_of_its_objects(lithify_s3: S3Server) -> None:
    store = S3Store("no-such-bucket", "p", lithify_s3.options)
    for ask in (lambda: store.get("k"), lambda: store.head("k"), lambda: store.read("k", 0, 1)):
        with pytest.raises(InvalidRequest, match="create the bucket"):
            ask()


def test_a_head_is_one_request_whatever_it_finds(lithify_s3: S3Server, bucket: str) -> None:
    """A GET of one byte, at the price of a HEAD; an empty object, which has no first byte, takes two."""
    with Front(lithify_s3.endpoint_url) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
        for key, size, requests in (("k", 100_000, 1), ("empty", 0, 2), ("nothing", None, 1)):
            if size is not None:
                store.put(key, bytes(size))
            front.seen.clear()
            found = store.head(key)
            assert (found.size if found else None) == size
            assert [seen.method for seen in front.seen] == ["GET"] * requests
        front.plan(Deed(ignore_range=True))
        found = store.head("k")
        assert found is not None
        assert found.size == 100_000


@pytest.mark.parametrize(
    ("told", "received"),
    [("bytes 0-4/100", 5), ("bytes 10-19/100", 9), ("bytes 10-18/100", 9), ("bytes 10-19/*", 10), ("nonsense", 10)],
)
def test_a_range_that_is_not_the_one_asked_for_is_no_damage(told: str, received: int) -> None:
    headers = {"etag": '"e"', "last-modified": DATE, "content-range": told, "content-length": str(received)}
    headers["content-type"] = "binary/octet-stream"
    store, asked = answered(206, "x" * received, headers)
    with pytest.raises(Unavailable, match="bytes=10-19"):
        store.read("k", 10, 10)
    assert len(asked) == 4
    headers |= {"content-range": "bytes 10-14/15", "content-length": "5", "x-amz-request-id": "tx1"}
    answered(206, "x" * 5, headers)
    with pytest.raises(Corrupt, match="ends before byte 20"):
        store.read("k", 10, 10)


def test_a_redirect_without_a_region_is_followed_nowhere() -> None:
    """botocore would ask the bucket for its region, meet the same redirect, and ask again without end."""
    store, asked = answered(301, "", {"location": "http://169.254.169.254/"})
    with pytest.raises(LithifyError):
        store.get("k")
    assert len(asked) == 4


def test_of_a_page_no_more_is_told_than_its_kind() -> None:
    store, _ = answered(404, PAGE, {"content-type": "text/html\x1b[31m; secret"})
    with pytest.raises(Unavailable) as caught:
        store.get("k")
    assert str(caught.value) == (
        "s3://bucket/p/k: an answer of status 404 (text/html) that is not S3's own: there may be a proxy or load "
        "balancer in between, or the endpoint may not be S3. Nothing is lost; try again later"
    )


def test_a_listing_that_goes_on_and_does_not_say_where_is_not_the_end(lithify_s3: S3Server, bucket: str) -> None:
    """Taken for the end, it would hide topics and segments."""
    page = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(forward=False, status=200, body=page)) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
        for ask in (store.list, store.folders):
            with pytest.raises(Unavailable, match="cannot be read"):
                ask("")
        assert len(front.seen) == 8, "it is asked for again"


def test_the_refusal_of_who_gives_out_credentials_is_not_a_proxys(
    lithify_s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of a web identity that has expired: STS says so in words of its own."""
    refusal = (
        "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>expired</Message></Error></ErrorResponse>"
    )
    (tmp_path / "token").write_text("a token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/someone")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(forward=False, status=400, body=refusal)) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", front.endpoint_url)
        client = lithify_s3.options["client_kwargs"]
        store = S3Store(bucket, "p", {"client_kwargs": client}, pause=lambda _: None)
        for ask in (lambda: store.create("k", b"body"), lambda: store.get("k"), lambda: store.put("k", b"body")):
            with pytest.raises(AccessDenied, match="ExpiredTokenException: the session token has expired"):
                ask()


@pytest.mark.parametrize(
    "code", ["BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"]
)
def test_a_write_that_arrived_damaged_is_sent_again(code: str) -> None:
    """As it left us, it was whole: it is no mistake of whoever asked."""
    body = f"<Error><Code>{code}</Code><Message>of a body</Message></Error>"
    store, _ = answered(400, body, {"content-type": "application/xml", "x-amz-request-id": "1"})
    assert store.create("k", b"body") is Outcome.UNKNOWN
    with pytest.raises(Unavailable, match=code):
        store.put("k", b"body")
