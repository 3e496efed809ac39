"""Answers to a PUT or a DELETE have no body to know S3 by: without its mark, it is asked what it has (RFC 0006)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lithify
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.port import Outcome
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front
from lithify.testing.server import S3Server
from tests.store.answering import DATE, PAGE, PAGES, answered

MARKS = [
    {"x-amz-request-id": "tx00000a1-0065f1"},
    {"x-amz-id-2": "lkj2+f4="},
    {"x-amz-checksum-crc32": "jt9Hdw=="},
]


@pytest.mark.slow
@given(
    st.sampled_from([200, 201, 204]),
    st.sampled_from(PAGES) | st.text(max_size=20) | st.just("body"),
    st.fixed_dictionaries(
        {},
        optional={
            "etag": st.sampled_from(['"65f1-3b"', 'W/"37-m6gXqWkE3pPGq9Hj1"', '"841a2d689ad86bd1611447453c22c6fc"']),
            "last-modified": st.just(DATE),
            "content-type": st.sampled_from(["text/html; charset=utf-8", "application/json", "binary/octet-stream"]),
            "server": st.sampled_from(["nginx", "cloudflare", "AmazonS3"]),
            # Of gateways in front of anything.
            "x-amzn-requestid": st.just("4f0d"),
            "x-amz-cf-id": st.just("4f0d"),
            "x-amz-apigw-id": st.just("4f0d"),
            "x-powered-by": st.just("Express"),
        },
    ),
)
def test_no_success_of_others_is_an_acknowledgement(status: int, page: str, headers: dict[str, str]) -> None:
    """With whatever headers, and an ETag: without S3's mark a write counts only if the object can be read back."""
    store, asked = answered(status, page, {**headers, "content-length": str(len(page))})
    created = store.create("k", b"never the page")
    assert created is Outcome.UNKNOWN
    assert asked.count("PUT") == 1
    output = store.output("k")
    output.write(b"never the page")
    for ask in (lambda: store.put("k", b"never the page"), output.close, lambda: store.delete(["k"])):
        with pytest.raises(Unavailable, match="again"):
            ask()


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: next(iter(mark)))
@pytest.mark.parametrize("status", [200, 201, 204])  # the latter two: Ceph, if it is told so
def test_an_acknowledgement_with_s3_s_mark_costs_no_second_request(status: int, mark: dict[str, str]) -> None:
    store, asked = answered(status, "", {"etag": '"e"', "content-length": "0", **mark})
    assert store.create("k", b"body") is Outcome.CREATED
    store.put("k", b"body")
    store.output("k").close()
    assert asked == ["PUT"] * 3
    for headers, body in (({"etag": 'W/"e"'}, ""), ({"etag": '"e"'}, PAGE), ({}, "")):
        answered(status, body, {"content-length": str(len(body)), **mark, **headers})
        assert store.create("k", b"body") is Outcome.UNKNOWN


def test_a_server_without_s3_s_marks_is_asked_what_it_has(lithify_s3: S3Server, bucket: str) -> None:
    """Not every S3 sends its marks, and some proxies hide them: what was written is read back, and never refused."""
    bare = Deed(without=("x-amz-request-id", "x-amz-id-2", "x-amz-checksum-crc32"))
    with Front(lithify_s3.endpoint_url, rule=lambda _: bare) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
        assert store.create("k", b"first") is Outcome.CREATED
        assert store.create("k", b"other") is Outcome.EXISTS
        store.put("l", b"second")
        for size in (5, 9 << 20):
            output = store.output(f"streamed/{size}")
            output.write(bytes(size))
            output.close()
            assert store.read(f"streamed/{size}", size - 1, 1) == bytes(1)
        assert [found.key for found in store.list("").objects] == ["k", "l", "streamed/5", "streamed/9437184"]
        assert [(seen.method, seen.path[-1]) for seen in front.seen][:2] == [("PUT", "k"), ("GET", "k")]
        assert store.delete(["k"]) == {}
        assert store.delete(["l", "m"]) == {}
        assert store.get("k") is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["/segments/", "/manifest/"])
def test_an_append_answered_by_somebody_else_is_there_or_is_not_acknowledged(
    kind: str, lithify_s3: S3Server, bucket: str
) -> None:
    """A portal's page with an ETag, in answer to the PUT of the segment, or to that which commits it: the append is
    repeated until S3 itself has taken it. Two appends at one offset were acknowledged so."""
    page = Deed(
        forward=False, status=200, body=PAGE, kind="text/html", headers=(("ETag", 'W/"37-m6gX"'), ("Server", "Express"))
    )
    with Front(lithify_s3.endpoint_url, concerns=lambda seen: seen.method == "PUT" and kind in seen.path) as front:
        mine = lithify.open(f"s3://{bucket}/w", storage_options=front.options(lithify_s3.options))
        partition = mine.create_topic("t").partition(0)
        partition.append([lithify.Record(b"a", b"1")])
        for deed in (page, replace(page, body=""), replace(page, body="", headers=(("ETag", '"e"'),))):
            front.plan(deed)
            partition.append([lithify.Record(b"mine", b"2")])
            assert not front._planned
        other = lithify.open(f"s3://{bucket}/w", storage_options=lithify_s3.options).topic("t").partition(0)
        assert other.append([lithify.Record(b"theirs", b"3")]) == range(4, 5)
        assert [record.key for record in other.read()] == [b"a", b"mine", b"mine", b"mine", b"theirs"]


STATIC = {"etag": '"65f1-3b"', "last-modified": DATE, "accept-ranges": "bytes", "server": "nginx"}


@pytest.mark.parametrize("body", [PAGE, PAGE * 100])
def test_a_static_page_is_no_object(body: str) -> None:
    """nginx has an ETag and a date for its maintenance page, and gives ranges of it, too."""
    headers = {**STATIC, "content-type": "text/html", "content-length": str(len(body))}
    store, asked = answered(200, body, headers)
    for status, told in ((200, {}), (206, {"content-range": f"bytes 0-8/{len(body)}", "content-length": "9"})):
        answered(status, body[: 9 if told else None], {**headers, **told})
        for ask in (lambda: store.get("k"), lambda: store.head("k"), lambda: store.read("k", 0, 9)):
            asked.clear()
            with pytest.raises(Unavailable, match="not S3's own"):
                ask()
            assert len(asked) == 4
    # The same with S3's mark is an object that somebody called HTML.
    answered(200, body, {**headers, "x-amz-request-id": "tx1"})
    found = store.get("k")
    assert found is not None
    assert found.body == body.encode()


def test_an_object_is_too_short_only_in_s3_s_own_words() -> None:
    """A server that ignores ranges answers with the whole: if that is too short, it has to be the store's own whole."""
    store, asked = answered(200, "{}", {**STATIC, "content-type": "application/json", "content-length": "2"})
    with pytest.raises(Unavailable, match="try again"):
        store.read("k", 0, 9)
    assert len(asked) == 4
    answered(200, "{}", {**STATIC, "content-type": "x/y", "content-length": "2", "x-amz-request-id": "tx1"})
    with pytest.raises(Corrupt, match="ends before byte 9"):
        store.read("k", 0, 9)
    # The same of a server that gives ranges, also of its pages.
    ranged = {**STATIC, "content-type": "text/plain", "content-length": "2", "content-range": "bytes 0-1/2"}
    store, asked = answered(206, "{}", ranged)
    with pytest.raises(Unavailable, match="try again"):
        store.read("k", 0, 9)
    assert len(asked) == 4
    answered(206, "{}", {**ranged, "x-amz-id-2": "lkj2"})
    with pytest.raises(Corrupt, match="ends before byte 9"):
        store.read("k", 0, 9)


def test_an_empty_object_has_no_first_byte_with_or_without_marks(lithify_s3: S3Server, bucket: str) -> None:
    """Go's file server answers with the whole, which is empty, where S3 refuses the range."""
    for deed in (Deed(), Deed(ignore_range=True), Deed(ignore_range=True, without=("x-amz-request-id",))):
        with Front(lithify_s3.endpoint_url, rule=lambda _, deed=deed: deed) as front:
            store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
            store.put("empty", b"")
            found = store.head("empty")
            assert found is not None
            assert found.size == 0


def test_a_part_of_an_object_that_does_not_say_which_is_no_object() -> None:
    """A gateway that drops Content-Range: the part was taken for the whole, which made the object too short."""
    store, asked = answered(206, "x" * 9, {**STATIC, "content-type": "x/y", "content-length": "9"})
    for ask in (lambda: store.get("k"), lambda: store.head("k"), lambda: store.read("k", 0, 9)):
        asked.clear()
        with pytest.raises(Unavailable, match="try again"):
            ask()
        assert len(asked) == 4
    answered(206, "x" * 9, {**STATIC, "content-type": "x/y", "content-length": "9", "content-range": "bytes 0-8/20"})
    with pytest.raises(Unavailable, match="try again"):
        store.get("k")  # which asked for the whole


ERROR_OF_BATCH = "<DeleteResult><Error>{key}<Code>{code}</Code></Error></DeleteResult>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "code"),
    [("", "InternalError"), ("<Key>p/a%20b</Key>", "AccessDenied"), ("<Key>p/other</Key>", "AccessDenied")]
    + [("<Key>p/a b</Key>", code) for code in ("InternalError", "SlowDown", "ServiceUnavailable")],
)
def test_what_a_batch_leaves_open_is_deleted_one_by_one(key: str, code: str, lithify_s3: S3Server, bucket: str) -> None:
    """An error that names no key of the batch says that one of them is still there; one that passes is no refusal."""
    with Front(lithify_s3.endpoint_url, concerns=lambda seen: seen.method == "POST") as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options), pause=lambda _: None)
        store.put("a b", b"")
        store.put("c", b"")
        front.plan(Deed(forward=False, status=200, body=ERROR_OF_BATCH.format(key=key, code=code)))
        assert store.delete(["a b", "c"]) == {}
        assert store.get("a b") is None
        if "a b" not in key:
            assert store.get("c") is None
