"""S3: what each answer, and each silence, to a request means; through real HTTP that fails to order."""

import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from moto.s3.models import s3_backends

from lithify.store.driver import machine_ms
from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.port import Outcome
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.processes import exit_codes, forked

FronterMaker = Callable[..., tuple[S3Store, Front]]
PREFIX = "some/prefix"


@pytest.fixture
def fronted(lithify_s3: S3Server, bucket: str) -> Iterator[FronterMaker]:
    """A store that reaches its bucket through a front."""
    fronts: list[Front] = []

    def make(concerns: Callable[[Seen], bool] = lambda _: True, **options: Any) -> tuple[S3Store, Front]:
        front = Front(lithify_s3.endpoint_url, concerns)
        fronts.append(front)
        given = {**front.options(lithify_s3.options), **options}
        return S3Store(bucket, PREFIX, given, pause=lambda _: None), front

    yield make
    for front in fronts:
        front.__exit__()


STORED, ABSENT = True, False


@pytest.mark.parametrize(
    ("deed", "outcome", "stored"),
    [
        (Deed(), Outcome.CREATED, STORED),
        (Deed(reply="none"), Outcome.UNKNOWN, STORED),
        (Deed(forward=False, reply="none"), Outcome.UNKNOWN, ABSENT),
        (Deed(reply="reset"), Outcome.UNKNOWN, STORED),
        (Deed(forward=False, reply="reset"), Outcome.UNKNOWN, ABSENT),
        (Deed(delay_ms=1), Outcome.CREATED, STORED),
        (Deed(status=500, code="InternalError"), Outcome.UNKNOWN, STORED),
        (Deed(status=502), Outcome.UNKNOWN, STORED),
        (Deed(status=503, code="SlowDown", forward=False), Outcome.UNKNOWN, ABSENT),
        (Deed(status=504), Outcome.UNKNOWN, STORED),
        (Deed(status=409, code="ConditionalRequestConflict", forward=False), Outcome.UNKNOWN, ABSENT),
        (Deed(status=409, code="OperationAborted"), Outcome.UNKNOWN, STORED),
        (Deed(status=429, forward=False), Outcome.UNKNOWN, ABSENT),
        (Deed(status=400, code="RequestTimeout", forward=False), Outcome.UNKNOWN, ABSENT),
        (Deed(status=412, code="PreconditionFailed", forward=False), Outcome.EXISTS, ABSENT),
    ],
    ids=repr,
)
def test_one_create_is_one_request_with_one_of_three_outcomes(
    deed: Deed, outcome: Outcome, stored: bool, fronted: FronterMaker, s3_store: S3Store
) -> None:
    store, front = fronted()
    front.plan(deed)
    assert store.create("k", b"body") is outcome
    assert front.seen == [Seen("PUT", f"/{store.url.removeprefix('s3://')}/k", True)]
    found = s3_store.get("k")
    assert (found is not None) == stored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (404, "NoSuchBucket", "create the bucket"),
        (501, "NotImplemented", "this store has no conditional put"),
        (400, "InvalidArgument", "this store has no conditional put"),
    ],
)
def test_a_certain_refusal_says_what_to_do(status: int, code: str, remedy: str, fronted: FronterMaker) -> None:
    store, front = fronted()
    front.plan(Deed(forward=False, status=status, code=code))
    with pytest.raises(InvalidRequest, match=rf"{store.url}/k: .*{code}.*{remedy}"):
        store.create("k", b"body")
    assert len(front.seen) == 1


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDenied", "grant this identity"),
        (401, "Unauthorized", "grant this identity"),
        (403, "InvalidAccessKeyId", "check the credentials"),
        (403, "SignatureDoesNotMatch", "check the credentials"),
        (400, "InvalidToken", "check the credentials"),
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
        (400, "ExpiredToken", "renew it"),
        (403, "QuotaExceeded", "free space"),
    ],
)
def test_who_is_refused_is_told_at_once_and_nothing_happened(
    status: int, code: str, remedy: str, fronted: FronterMaker
) -> None:
    store, front = fronted()
    asks: list[Callable[[], Any]] = [
        lambda: store.create("k", b"body"),
        lambda: store.get("k"),
        lambda: store.head("k"),
        lambda: store.read("k", 0, 1),
        lambda: store.put("k", b""),
        lambda: store.list(""),
        lambda: store.folders(""),
        lambda: store.output("k").close(),
    ]
    if code != "AccessDenied":  # which may be about the batch alone: test_a_batch_that_is_refused_as_a_whole_...
        asks.append(lambda: store.delete(["k", "l"]))
    for number, ask in enumerate(asks, start=1):
        front.plan(Deed(forward=False, status=status, code=code))
        with pytest.raises(AccessDenied, match=rf"{store.url}.*{code}.*{remedy}") as caught:
            ask()
        assert len(front.seen) == number, "it is asked once"
        assert type(pickle.loads(pickle.dumps(caught.value))) is AccessDenied, "workers send it"
    assert store.get("k") is None


def test_a_late_create_lands_after_its_writer_was_cut_off(fronted: FronterMaker, s3_store: S3Store) -> None:
    store, front = fronted()
    front.plan(Deed(late_ms=1))
    assert store.create("k", b"late") is Outcome.UNKNOWN
    front.drain()
    assert store.create("k", b"next") is Outcome.EXISTS
    assert s3_store.read("k", 0, 4) == b"late"


def test_a_timeout_is_unknown(s3_store: S3Store) -> None:
    def time_out(request: Any, **_: Any) -> None:
        raise ReadTimeoutError(endpoint_url=request.url)

    s3_store.conditional_client().meta.events.register("before-send.s3.PutObject", time_out)
    assert s3_store.create("k", b"body") is Outcome.UNKNOWN


def test_nobody_listens(lithify_s3: S3Server) -> None:
    with Front(lithify_s3.endpoint_url) as front:
        options = front.options(lithify_s3.options)
    options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    store = S3Store("bucket", "", options, pause=lambda _: None)
    assert store.create("k", b"body") is Outcome.UNKNOWN
    asks: list[Callable[[], Any]] = [
        lambda: store.get("k"),
        lambda: store.head("k"),
        lambda: store.read("k", 0, 1),
        lambda: store.put("k", b""),
        lambda: store.list(""),
        lambda: store.folders(""),
        lambda: store.delete(["k"]),
        lambda: store.delete(["k", "l"]),
        store.now,
        lambda: store.remove_stale_temporaries(bool),
    ]
    for ask in asks:
        with pytest.raises(Unavailable, match=r"s3://bucket.*try again"):
            ask()


def test_without_credentials_nothing_is_sent(
    fronted: FronterMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.path.join(tmp_path, "none"))
    _, front = fronted()
    store = S3Store("bucket", "", {"client_kwargs": {"endpoint_url": front.endpoint_url, "region_name": "us-east-1"}})
    for ask in (lambda: store.create("k", b""), lambda: store.get("k"), lambda: store.list("")):
        with pytest.raises(AccessDenied, match="check the credentials"):
            ask()
    assert front.seen == []


def test_a_missing_bucket_is_the_callers_error(lithify_s3: S3Server) -> None:
    store = S3Store("no-such-bucket", "p", lithify_s3.options)
    asks: list[Callable[[], Any]] = [
        lambda: store.create("k", b""),
        lambda: store.get("k"),
        lambda: store.head("k"),
        lambda: store.read("k", 0, 1),
        lambda: store.put("k", b""),
        lambda: store.list(""),
        lambda: store.folders(""),
        lambda: store.delete(["k", "l"]),
        lambda: store.output("k").close(),
    ]
    for ask in asks:
        with pytest.raises(InvalidRequest, match="bucket"):
            ask()


@pytest.mark.parametrize("deed", [Deed(reply="half"), Deed(reply="none"), Deed(status=503, forward=False)], ids=repr)
def test_gets_are_repeated_within_bounds(deed: Deed, fronted: FronterMaker) -> None:
    store, front = fronted(
        concerns=lambda seen: seen.method == "GET", config_kwargs={"retries": {"total_max_attempts": 1}}
    )
    body = bytes(range(256)) * 100
    store.put("k", body)
    front.plan(*[deed] * 3)
    found = store.get("k")
    assert found is not None
    assert found.body == body
    front.plan(*[deed] * 4)
    with pytest.raises(Unavailable, match=f"{store.url}/k"):
        store.get("k")


def test_a_truncated_range_is_read_again(fronted: FronterMaker) -> None:
    store, front = fronted(concerns=lambda seen: seen.method == "GET")
    body = bytes(range(256)) * 100
    store.put("k", body)
    front.plan(*[Deed(reply="half")] * 3)
    assert store.read("k", 1000, 5000) == body[1000:6000]
    front.plan(*[Deed(reply="half")] * 4)
    with pytest.raises(Unavailable, match=f"{store.url}/k"):
        store.read("k", 1000, 5000)


def test_a_server_that_ignores_ranges_is_survived(fronted: FronterMaker) -> None:
    store, front = fronted(concerns=lambda seen: seen.method == "GET")
    store.put("k", b"0123456789")
    front.plan(Deed(ignore_range=True), Deed(ignore_range=True))
    assert store.read("k", 3, 4) == b"3456"
    with pytest.raises(Corrupt):
        store.read("k", 8, 4)


def test_unconditional_writes_are_repeated(fronted: FronterMaker) -> None:
    store, front = fronted(concerns=lambda seen: seen.method == "PUT")
    front.plan(Deed(reply="none"), Deed(status=500))
    store.put("k", b"body")
    assert store.read("k", 0, 4) == b"body"
    assert [seen.method for seen in front.seen] == ["PUT", "PUT", "PUT", "GET"]


def test_deletions_that_the_store_refuses_one_by_one_are_surfaced(fronted: FronterMaker) -> None:
    store, front = fronted()
    failures = "".join(
        f"<Error><Key>{PREFIX}/{key}</Key><Code>{code}</Code></Error>"
        for key, code in (("gone", "NoSuchKey"), ("a", "InternalError"), ("b", "AccessDenied"))
    )
    front.plan(Deed(forward=False, status=200, body=f"<DeleteResult>{failures}</DeleteResult>"))
    refused = store.delete(["gone", "a", "b"])
    assert refused.keys() == {"b"}, "what failed only for now was deleted singly"
    assert "AccessDenied: check the permission s3:DeleteObject, and locks" in refused["b"]


def test_a_batch_that_is_refused_as_a_whole_goes_key_by_key(fronted: FronterMaker) -> None:
    """Ceph asks whether the bucket itself may be deleted from, so a policy by keys refuses every batch."""
    store, front = fronted()
    for key in "abc":
        store.put(key, b"body")
    denied = Deed(forward=False, status=403, body="<Error><Code>AccessDenied</Code></Error>")
    front.plan(denied)
    assert store.delete(["a", "b", "c"]) == {}
    assert [store.head(key) for key in "abc"] == [None] * 3
    front.plan(denied, denied)
    with pytest.raises(AccessDenied, match="s3:DeleteObject"):
        store.delete(["a", "b", "c"])  # and after one key it is clear that each will be refused


def test_a_single_deletion_that_is_refused_is_told_like_one_of_many(fronted: FronterMaker) -> None:
    store, front = fronted()
    front.plan(Deed(forward=False, status=403, body="<Error><Code>AccessDenied</Code></Error>"))
    assert "AccessDenied" in store.delete(["a"])["a"]


def test_a_store_without_batch_deletion_is_asked_for_each_key(fronted: FronterMaker) -> None:
    store, front = fronted(concerns=lambda seen: seen.method == "POST")
    for key in ("a", "b", "c"):
        store.put(key, b"x")
    front.plan(Deed(forward=False, status=501, code="NotImplemented"))
    store.delete(["a", "b", "nothing"])
    assert [found.key for found in store.list("").objects] == ["c"]


@pytest.fixture
def many_keys(bucket: str) -> list[str]:
    """1,100 objects, put where the server keeps them: over HTTP it would take five seconds."""
    keys = [f"many/{number:05d}" for number in range(1100)]
    (backend,) = (
        backend for account in s3_backends.values() for backend in account.values() if bucket in backend.buckets
    )
    for key in keys:
        backend.put_object(bucket, f"{PREFIX}/{key}", b"")
    return keys


def test_lists_and_deletions_go_by_thousands(many_keys: list[str], fronted: FronterMaker) -> None:
    store, front = fronted()
    first = store.list("many/")
    second = store.list("many/", first.token)
    assert [len(page.objects) for page in (first, second)] == [1000, 100]
    assert second.token is None
    listed = [found.key for page in (first, second) for found in page.objects]
    assert sorted(listed) == many_keys
    front.seen.clear()
    store.delete(listed)
    assert [seen.method for seen in front.seen] == ["POST"] * 2
    assert store.list("").objects == ()


def test_folder_markers_of_consoles_are_no_objects(s3_store: S3Store, bucket: str) -> None:
    for key in (f"{PREFIX}/", f"{PREFIX}/topic/"):
        s3_store.bulk_client().put_object(Bucket=bucket, Key=key, Body=b"")
    s3_store.put("topic/object", b"x")
    assert [found.key for found in s3_store.list("").objects] == ["topic/object"]
    assert list(s3_store.folders("")) == ["topic"]


def test_stores_with_and_without_a_prefix_see_each_other(lithify_s3: S3Server, bucket: str) -> None:
    whole, part = S3Store(bucket, "", lithify_s3.options), S3Store(bucket, "/p/", lithify_s3.options)
    assert part.create("k", b"x") is Outcome.CREATED
    assert whole.create("p/k", b"y") is Outcome.EXISTS
    assert (whole.url, part.url) == (f"s3://{bucket}", f"s3://{bucket}/p")
    assert [found.key for found in whole.list("p/").objects] == ["p/k"]


def test_a_forked_child_uses_the_parents_store(s3_store: S3Store) -> None:
    """Its sockets are not the parent's: mixed replies would hand one process the other's objects."""
    s3_store.put("parent", b"parent")

    def work(child: int) -> int:
        for number in range(5):
            s3_store.create(f"child/{child}/{number}", str(child).encode())
        return int(not all(s3_store.read(f"child/{child}/{n}", 0, 1) == str(child).encode() for n in range(5)))

    pids = [forked(lambda child=child: work(child)) for child in range(3)]
    bodies = [s3_store.read("parent", 0, 6) for _ in range(20)]
    assert exit_codes(pids) == [0, 0, 0]
    assert bodies == [b"parent"] * 20
    assert len(s3_store.list("child/").objects) == 15


def test_a_child_forked_while_a_thread_reads_the_clock_does_not_wait_for_it(s3_store: S3Store) -> None:
    """That thread is not in the child, and would never let go of the clock."""
    s3_store.put("parent", b"parent")

    def child() -> int:
        return int(s3_store.create("child", b"child") is not Outcome.CREATED or s3_store.now() <= 0)

    with s3_store._clients.clock._lock:
        assert exit_codes([forked(child)]) == [0]


def test_now_costs_no_request_after_any_reply(fronted: FronterMaker) -> None:
    store, front = fronted()
    store.now()
    assert [seen.method for seen in front.seen] == ["GET"]
    store.now()
    again, front = fronted()
    with pytest.raises(NotFound):
        again.read("nothing", 0, 1)
    front.seen.clear()
    again.now()
    assert front.seen == []


def test_after_the_machine_slept_now_asks_and_where_nothing_answers_it_raises(fronted: FronterMaker) -> None:
    """Its monotonic clock stood still: what the clock last told is hours old, and nothing may be stamped with it."""
    store, front = fronted()
    before = store.now()
    hours = 8 * 3_600_000
    store._clients.clock._machine = lambda: machine_ms() + hours
    front.plan(*[Deed(forward=False, reply="none")] * 8)
    with pytest.raises(Unavailable, match="try again"):
        store.now()
    front._planned.clear()
    front.seen.clear()
    assert store.now() >= before
    assert [seen.method for seen in front.seen] == ["GET"] * 3, "this machine's clock does not bear one reply out"
    front.seen.clear()
    store.now()
    assert front.seen == []


def test_extra_parameters_go_to_the_operations_that_know_them(fronted: FronterMaker, bucket: str) -> None:
    store, _ = fronted(s3_additional_kwargs={"ServerSideEncryption": "AES256", "StorageClass": "STANDARD_IA"})
    store.create("created", b"x")
    store.put("put", b"x")
    output = store.output("streamed")
    output.write(b"x")
    output.close()
    store.delete(["nothing", "else"])
    for key in ("created", "put", "streamed"):
        assert store.read(key, 0, 1) == b"x"
        found = store.bulk_client().head_object(Bucket=bucket, Key=f"{PREFIX}/{key}")
        assert (found["ServerSideEncryption"], found["StorageClass"]) == ("AES256", "STANDARD_IA")
