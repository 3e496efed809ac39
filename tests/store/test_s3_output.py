"""Streaming uploads to S3: one PUT when small, parts when large, nothing visible and nothing left when given up."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

import lithify
from lithify.cli.main import cli
from lithify.manifest.keys import is_segment_key
from lithify.store.errors import AccessDenied, LithifyError, Unavailable
from lithify.store.metered import Metered
from lithify.store.port import OutputFile
from lithify.store.s3 import S3Store
from lithify.store.s3_output import PART_BYTES
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server

PIECE = bytes(range(256)) * 4096  # 1 MiB


def is_part(seen: Seen) -> bool:
    return "partNumber=" in seen.path


def is_completion(seen: Seen) -> bool:
    return seen.method == "POST" and "uploadId=" in seen.path


@pytest.fixture
def front(lithify_s3: S3Server) -> Iterator[Front]:
    with Front(lithify_s3.endpoint_url) as front:
        yield front


@pytest.fixture
def store(front: Front, lithify_s3: S3Server, bucket: str) -> S3Store:
    return S3Store(bucket, "p", front.options(lithify_s3.options))


@pytest.fixture
def unfinished(s3_store: S3Store, bucket: str) -> Callable[[], int]:
    return lambda: len(s3_store.bulk_client().list_multipart_uploads(Bucket=bucket).get("Uploads", ()))


def test_what_fits_one_part_is_one_put(store: S3Store, front: Front) -> None:
    output = store.output("k")
    for _ in range(8):
        output.write(PIECE)
    output.close()
    assert [seen.method for seen in front.seen] == ["PUT"]
    assert output.requests == 1
    assert store.read("k", PART_BYTES - 4, 4) == PIECE[-4:]


def test_parts_are_sent_while_it_is_written(store: S3Store, front: Front, unfinished: Callable[[], int]) -> None:
    output = store.output("k")
    for _ in range(24):
        output.write(PIECE)
    output.write(memoryview(PIECE)[: 1 << 19])
    assert sum(map(is_part, front.seen)) >= 1  # of three, two may be on their way
    assert store.head("k") is None
    output.close()
    head = store.head("k")
    assert head is not None
    assert head.size == (24 << 20) + (1 << 19)
    for start in (0, PART_BYTES - 10, 2 * PART_BYTES - 10):
        assert store.read("k", start, 20) == (PIECE + PIECE)[start % (1 << 20) :][:20]
    assert output.requests == sum(seen.method in ("PUT", "POST") for seen in front.seen) == 6
    assert unfinished() == 0


def test_an_exact_multiple_of_the_part_has_no_empty_part(store: S3Store, front: Front) -> None:
    output = store.output("k")
    output.write(bytes(2 * PART_BYTES))
    output.close()
    head = store.head("k")
    assert head is not None
    assert head.size == 2 * PART_BYTES
    assert sum(map(is_part, front.seen)) == 2


def test_whoever_writes_does_not_wait_for_the_upload_to_begin(
    store: S3Store, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, go = store.bulk_client().create_multipart_upload, threading.Event()

    def gated(**parameters: Any) -> Any:
        assert go.wait(20)
        return begin(**parameters)

    monkeypatch.setattr(store.bulk_client(), "create_multipart_upload", gated)
    output = store.output("k")
    output.write(bytes(PART_BYTES + 1))
    assert not front.seen
    go.set()
    output.close()
    head = store.head("k")
    assert head is not None
    assert head.size == PART_BYTES + 1


def test_given_up_it_leaves_nothing(store: S3Store, unfinished: Callable[[], int]) -> None:
    output = store.output("k")
    output.write(bytes(3 * PART_BYTES + 1))  # a first part has arrived
    assert unfinished() == 1
    output.abort()
    output.close()
    assert unfinished() == 0
    assert store.head("k") is None


@pytest.mark.slow
@pytest.mark.parametrize("concerned", [is_part, is_completion])
@pytest.mark.parametrize(
    ("status", "code", "error"), [(500, "InternalError", Unavailable), (403, "AccessDenied", AccessDenied)]
)
def test_a_failure_surfaces_and_leaves_nothing(
    concerned: Callable[[Seen], bool],
    status: int,
    code: str,
    error: type[LithifyError],
    lithify_s3: S3Server,
    bucket: str,
    unfinished: Callable[[], int],
) -> None:
    def rule(seen: Seen) -> Deed:
        return Deed(forward=False, status=status, code=code) if concerned(seen) else Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        options = front.options(lithify_s3.options)
        store = S3Store(bucket, "p", {**options, "config_kwargs": {"retries": {"total_max_attempts": 2}}})
        output = store.output("k")
        with pytest.raises(error, match=r"/p/k"):
            write_and_close(output, 2 * PART_BYTES + 1)
        assert output.closed
        assert store.head("k") is None
    assert unfinished() == 0


def write_and_close(output: OutputFile, size: int) -> None:
    output.write(bytes(size))
    output.close()


@pytest.mark.parametrize("deed", [Deed(reply="none"), Deed(status=500)], ids=repr)
def test_a_completion_whose_reply_was_lost_is_a_completion(
    deed: Deed, lithify_s3: S3Server, bucket: str, unfinished: Callable[[], int]
) -> None:
    """The client asks again, and is told that there is no such upload: its own first request ended it."""
    with Front(lithify_s3.endpoint_url, is_completion) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options))
        front.plan(deed)
        output = store.output("k")
        output.write(bytes(PART_BYTES + 1))
        output.close()
        assert sum(map(is_completion, front.seen)) == 2
        head = store.head("k")
    assert head is not None
    assert head.size == PART_BYTES + 1
    assert unfinished() == 0


OURS = "users/0123456789abcdef/00000/segments/000000000001-0123456789abcdef.parquet"


def listing(*uploads: tuple[str, float]) -> Deed:
    """What S3 lists: a key, and when its upload began (seconds since 1970)."""
    texts = [
        f"<Upload><Key>{key}</Key><UploadId>{number}</UploadId>"
        f"<Initiated>{datetime.fromtimestamp(at, UTC).isoformat()}</Initiated></Upload>"
        for number, (key, at) in enumerate(uploads)
    ]
    return Deed(
        forward=False, status=200, body=f"<ListMultipartUploadsResult>{''.join(texts)}</ListMultipartUploadsResult>"
    )


FRESH, STALE = 4e9, 1e9


@pytest.mark.parametrize(
    "answer", [Deed(forward=False, status=204), Deed(forward=False, status=404, code="NoSuchUpload")]
)
def test_only_stale_uploads_of_our_own_keys_are_cleared(answer: Deed, lithify_s3: S3Server) -> None:
    """Those of another application under the same prefix stay, however old; so do those of another warehouse below."""
    others = ("backup.tar", "users/export.parquet", f"other/{OURS}", f"{OURS}.part", ".lithify-probe/x", "")
    listed = listing((f"p/{OURS}", FRESH), (f"p/{OURS}", STALE), *((f"p/{key}", STALE) for key in others))

    def rule(seen: Seen) -> Deed:
        return listed if "?uploads" in seen.path else answer if seen.method == "DELETE" else Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        store = Metered(S3Store("bucket", "p", front.options(lithify_s3.options)))
        assert store.remove_stale_temporaries(is_segment_key, dry_run=True) == 1
        assert "DELETE" not in {seen.method for seen in front.seen}
        assert store.remove_stale_temporaries(is_segment_key) == 1
        assert [seen.path for seen in front.seen if seen.method == "DELETE"] == [f"/bucket/p/{OURS}?uploadId=1"]


@pytest.mark.slow
@pytest.mark.parametrize("clear", ["doctor", "sweep"])
def test_neither_doctor_nor_a_sweep_ends_what_another_application_uploads(clear: str, lithify_s3: S3Server) -> None:
    bucket = lithify_s3.create_bucket()

    def rule(seen: Seen) -> Deed:
        return listing(("w/backup.tar", STALE), (f"w/{OURS}", STALE)) if "?uploads" in seen.path else Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        options = front.options(lithify_s3.options)
        with lithify.open(lithify_s3.url(f"{bucket}/w"), storage_options=options) as warehouse:
            warehouse.create_topic("users", probe=False)
            if clear == "sweep":
                lithify.Collector(warehouse).run_once(sweep=True)
            else:
                flags = [f"--storage-option={name}={value}" for name, value in options["client_kwargs"].items()]
                flags = [flag.replace("option=", "option=client_kwargs.") for flag in flags]
                flags += ["--storage-option=key=test", "--storage-option=secret=test", "--warehouse", warehouse.url]
                assert CliRunner().invoke(cli, [*flags, "doctor", "--rounds", "1"]).exit_code == 0
        aborted = [seen.path for seen in front.seen if seen.method == "DELETE" and "uploadId" in seen.path]
    assert aborted == [f"/{bucket}/w/{OURS}?uploadId=1"]
    lithify_s3.delete_bucket(bucket)
