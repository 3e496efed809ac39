"""A copy is whole and right, or it is not there; the store makes it where it can."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xxhash

from lithify.store import copying, s3_copies
from lithify.store.cold import Cold
from lithify.store.copying import copy
from lithify.store.errors import AccessDenied, Corrupt, LithifyError, NotFound, Unavailable
from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.opening_homes import opened_homes
from lithify.store.owners import owner_key_beside
from lithify.store.port import ObjectInfo, OutputFile, Store
from lithify.store.s3 import S3Store
from lithify.store.wrapped import Wrapped, innermost
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.far import FarStore, waves

OLD = "users/0123456789abcdef/00000/segments/1.parquet"
NEW = "users/0123456789abcdef/00000/segments/2.parquet"
BODY = bytes(range(251)) * 110_000  # 27 MB: four pieces, four parts
SUM = xxhash.xxh3_64_hexdigest(BODY)


def moved(homes: Homes, source: str, target: str, body: bytes = BODY) -> bool:
    """Whether the store itself made it."""
    return copy(homes, (source, OLD), (target, NEW), size=len(body), checksum=xxhash.xxh3_64_hexdigest(body))


def content(store: Store, key: str = NEW) -> bytes | None:
    found = store.get(key)
    return None if found is None else found.body


@pytest.fixture(params=["memory", "far", "file", "fsspec", "s3"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Any) -> Store:
    make: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "far": FarStore,
        "file": lambda: FileStore(tmp_path / "cold"),
        "fsspec": lambda: FsspecStore(f"file://{tmp_path}/cold"),
        "s3": lambda: request.getfixturevalue("s3_store"),
    }
    return make[request.param]()


@pytest.mark.parametrize("size", [0, 1, len(BODY)])
def test_there_and_back(elsewhere: Store, size: int) -> None:
    body, here = BODY[:size], MemoryStore()
    homes = Homes({HERE: here, "cold": Cold("cold", elsewhere)})
    here.put(OLD, body)
    assert not moved(homes, HERE, "cold", body)
    assert content(elsewhere) == body
    here.delete([OLD])
    elsewhere.put(OLD, body)
    moved(homes, "cold", HERE, body)
    assert content(here) == body


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda body: body[:9] + b"!" + body[10:]])
def test_a_damaged_source_is_named_and_nothing_is_left(
    elsewhere: Store, damage: Callable[[bytes], bytes], lithify_s3: S3Server
) -> None:
    here = MemoryStore("damaged")
    here.put(OLD, damage(BODY))
    with pytest.raises(Corrupt, match=OLD) as caught:
        moved(Homes({HERE: here, "cold": elsewhere}), HERE, "cold")
    assert caught.value.key == OLD
    assert content(elsewhere) is None
    assert not elsewhere.list("").objects
    target = innermost(elsewhere)
    if isinstance(target, S3Store):
        assert not target.bulk_client().list_multipart_uploads(Bucket=target._bucket).get("Uploads")


def test_no_source(elsewhere: Store) -> None:
    with pytest.raises(NotFound) as caught:
        moved(Homes({HERE: MemoryStore(), "cold": elsewhere}), HERE, "cold")
    assert caught.value.key == OLD
    assert content(elsewhere) is None


class Refusing(Wrapped):
    """Refuses at the n-th request of an output: its writes, then its closing."""

    def __init__(self, error: LithifyError, at: int = 0) -> None:
        super().__init__(MemoryStore())
        self.error = error
        self.at = at
        self.aborted = False

    def output(self, key: str) -> OutputFile:
        store, inner, asked = self, self.inner.output(key), Counter[str]()

        class Output(OutputFile):
            def _ask(self) -> None:
                asked["all"] += 1
                if asked["all"] > store.at:
                    raise store.error

            def write(self, data: Any, /) -> int:
                self._ask()
                return inner.write(data)

            def close(self) -> None:
                self._ask()
                inner.close()

            def abort(self) -> None:
                store.aborted = True
                inner.abort()

        return Output()


@pytest.mark.parametrize("at", [0, 2, 4])
@pytest.mark.parametrize("error", [Unavailable("full"), AccessDenied("no")])
def test_a_target_that_fails_is_named_and_its_upload_is_aborted(error: LithifyError, at: int) -> None:
    here, cold = MemoryStore(), Refusing(error, at)
    here.put(OLD, BODY)
    with pytest.raises(type(error), match=f"^home s3://far/p: {error}"):
        moved(Homes({HERE: here, "s3://far/p": Cold("s3://far/p", cold)}), HERE, "s3://far/p")
    assert cold.aborted
    assert content(cold) is None


class Shortening(Wrapped):
    """Has less than it was given, and says so only when asked."""

    def head(self, key: str) -> ObjectInfo | None:
        found = self.inner.head(key)
        return None if found is None else ObjectInfo(key, found.size - 1, found.modified_ms)


def test_the_size_is_compared_with_what_the_target_has() -> None:
    here, cold = MemoryStore(), Shortening(MemoryStore())
    here.put(OLD, BODY)
    with pytest.raises(Unavailable, match="the store has 27609999 of the 27610000 bytes"):
        moved(Homes({HERE: here, "cold": cold}), HERE, "cold")
    assert content(cold) is None


def test_reads_run_ahead_of_writes() -> None:
    far, here = FarStore(), MemoryStore()
    far.put(OLD, BODY)
    with waves(far) as trips:
        moved(Homes({HERE: here, "cold": far}), "cold", HERE)
    assert trips.largest == 1 + copying._AHEAD
    assert trips.count < 1 + len(BODY) // copying._PIECE_BYTES


@pytest.fixture
def asked() -> list[Seen]:
    return []


@pytest.fixture
def front(lithify_s3: S3Server, asked: list[Seen]) -> Iterator[Front]:
    with Front(lithify_s3.endpoint_url) as front:
        yield front


def kinds(front: Front) -> Counter[str]:
    return Counter(seen.method for seen in front.seen)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("home", ["class:STANDARD_IA", "bucket"])
def test_one_s3_copies_by_itself(
    lithify_s3: S3Server, bucket: str, front: Front, home: str, parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No byte comes here: a copy and the look at its checksums, there and back."""
    if parts:
        monkeypatch.setattr(s3_copies, "COPY_BYTES_MAX", 6 << 20)
    other = lithify_s3.create_bucket()
    try:
        homes = opened_homes(f"s3://{bucket}/p", front.options(lithify_s3.options))
        name = f"s3://{other}/q" if home == "bucket" else home
        homes.here.put(OLD, BODY)
        front.seen.clear()
        puts = homes.store(name).requests().puts
        assert moved(homes, HERE, name)
        if not parts:
            assert kinds(front) == {"PUT": 1, "HEAD": 2, "GET": 1}
        assert homes.store(name).requests().puts - puts == (7 if parts else 1)
        assert parts or homes.store(name).requests().bytes_read == 0
        assert content(homes.store(name)) == BODY
        client = innermost(homes.here).bulk_client()  # type: ignore[attr-defined]
        if home != "bucket":
            assert client.head_object(Bucket=bucket, Key=f"p/{NEW}")["StorageClass"] == "STANDARD_IA"
        assert homes.here.requests().bytes_copied == len(BODY)
        copy(homes, (name, NEW), (HERE, OLD + "x"), size=len(BODY), checksum=SUM)
        assert homes.store(name).requests().bytes_copied == len(BODY)
        found = client.head_object(Bucket=bucket, Key=f"p/{OLD}x")
        assert (found["ContentLength"], found.get("StorageClass", "STANDARD")) == (len(BODY), "STANDARD")
        homes.close()
    finally:
        lithify_s3.delete_bucket(other)


@pytest.mark.slow
def test_where_no_checksum_is_told_the_copy_is_read_back(
    lithify_s3: S3Server, bucket: str, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = opened_homes(f"s3://{bucket}/p", front.options(lithify_s3.options))
    homes.here.put(OLD, BODY)
    monkeypatch.setattr(S3Store, "told_checksums", lambda *_: {})
    front.seen.clear()
    moved(homes, HERE, "class:STANDARD_IA")
    assert kinds(front) == {"PUT": 1, "GET": 5}
    homes.here.put(OLD, BODY[:-1] + b"!")
    cold = homes.store("class:STANDARD_IA")
    with pytest.raises(Corrupt, match=OLD):
        moved(homes, HERE, "class:STANDARD_IA")
    assert content(cold) is None
    homes.close()


@pytest.mark.slow
def test_a_copy_that_the_store_made_wrong_is_deleted_and_the_source_is_not_blamed(
    lithify_s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = opened_homes(f"s3://{bucket}/p", lithify_s3.options)
    homes.here.put(OLD, BODY)

    def wrong(store: S3Store, _: S3Store, __: str, key: str, ___: int) -> int:
        store.put(key, b"!" + BODY[1:])
        return 1

    monkeypatch.setattr(S3Store, "copy_from", wrong)
    with pytest.raises(Unavailable, match="the copy is damaged, and was deleted"):
        moved(homes, HERE, "class:STANDARD_IA")
    assert content(homes.here) is None
    homes.close()


def test_a_store_that_refuses_to_copy_gets_the_bytes(lithify_s3: S3Server, bucket: str) -> None:
    def rule(seen: Seen) -> Deed:
        return Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        homes = opened_homes(f"s3://{bucket}/p", front.options(lithify_s3.options))
        homes.here.put(OLD, b"small")
        front.seen.clear()
        front.plan(Deed(forward=False, status=501, code="NotImplemented"))
        moved(homes, HERE, "class:STANDARD_IA", b"small")
        assert kinds(front) == {"PUT": 2, "GET": 2}
        assert content(homes.here) == b"small"
        homes.close()


@pytest.mark.slow
def test_other_credentials_or_another_endpoint_are_streamed(lithify_s3: S3Server, bucket: str, front: Front) -> None:
    other = lithify_s3.create_bucket()
    try:
        own = {f"s3://{other}/q": lithify_s3.options}
        homes = opened_homes(f"s3://{bucket}/p", {**front.options(lithify_s3.options), "homes": own})
        homes.here.put(OLD, BODY)
        moved(homes, HERE, f"s3://{other}/q")
        assert homes.store(f"s3://{other}/q").requests().bytes_written == len(BODY)
        assert homes.here.requests().bytes_read == len(BODY)
        homes.close()
    finally:
        lithify_s3.delete_bucket(other)


def test_a_missing_source_of_a_copy_that_the_store_makes(lithify_s3: S3Server, bucket: str) -> None:
    homes = opened_homes(f"s3://{bucket}/p", lithify_s3.options)
    with pytest.raises(NotFound) as caught:
        moved(homes, HERE, "class:STANDARD_IA")
    assert caught.value.key == OLD
    homes.close()


@pytest.mark.parametrize("lost", [False, True])
def test_what_a_filesystem_of_fsspec_took_is_read_back(tmp_path: Any, lost: bool) -> None:
    """Its size is right, and nobody else would have noticed. A copy that is not there is no missing source, either."""

    class Damaging(FsspecStore):
        def upload(self, key: str, local: str) -> None:
            super().upload(key, local)
            if lost:
                self.delete([key])
            else:
                self.put(key, b"!" + BODY[1:])

    here, cold = MemoryStore(), Damaging(f"file://{tmp_path}/cold")
    here.put(OLD, BODY)
    cold.put(owner_key_beside(NEW), b"{}")
    homes = Homes({HERE: here, "cold": Cold("cold", cold)})
    with pytest.raises(Unavailable, match="the copy is damaged, and was deleted"):
        moved(homes, HERE, "cold")
    assert content(cold) is None
