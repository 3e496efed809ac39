"""What every store promises (lithify.store.port.Store), held against each of them."""

import io
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.store.driver import machine_ms
from lithify.store.errors import Corrupt, InvalidRequest, NotFound
from lithify.store.file import FileStore
from lithify.store.metered import Metered
from lithify.store.opening import open_spec
from lithify.store.port import Outcome, Store
from lithify.store.s3 import S3Store

BAD_KEYS = ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb", "a\0b", "k" * 1025]


def test_the_first_create_wins_and_the_second_changes_nothing(store: Store) -> None:
    assert store.create("t/1.x", b"first") is Outcome.CREATED
    assert store.create("t/1.x", b"second") is Outcome.EXISTS
    found = store.get("t/1.x")
    assert found is not None
    assert found.body == b"first"


def test_create_may_store_nothing_at_all(store: Store) -> None:
    assert store.create("empty", b"") is Outcome.CREATED
    assert store.create("empty", b"x") is Outcome.EXISTS
    assert store.read("empty", 0, 0) == b""


def test_what_is_not_there(store: Store) -> None:
    store.put("folder/object", b"x")
    assert store.get("nothing") is None
    assert store.get("folder") is None
    assert store.head("folder") is None
    assert store.get("folder/object/below") is None
    assert store.head("nothing/at/all") is None
    with pytest.raises(NotFound, match="nothing"):
        store.read("nothing", 0, 1)
    store.delete(["nothing", "nothing/at/all"])


def test_put_replaces(store: Store) -> None:
    store.put("a/b", b"one")
    store.put("a/b", b"another")
    found = store.get("a/b")
    assert found is not None
    assert found.body == b"another"


def test_what_has_the_same_tag_is_the_same(store: Store) -> None:
    """Whoever asks for it whole, or only whether it is there. By their time alone these might not be told apart."""
    tags: list[str] = []
    for body in (b"one", b"two", b""):
        assert store.create("t/1.x", body) is Outcome.CREATED
        found, head = store.get("t/1.x"), store.head("t/1.x")
        assert found is not None
        assert head is not None
        assert found.tag == head.tag
        tags.append(found.tag)
        store.delete(["t/1.x"])
    told = [tag for tag in tags if tag]
    assert len(set(told)) == len(told), tags
    assert not isinstance(store, S3Store) or len(told) == len(tags), tags


def test_read_answers_exactly_the_range_or_corrupt(store: Store) -> None:
    body = bytes(range(256)) * 4
    store.put("ranges", body)
    assert store.read("ranges", 0, 1024) == body
    assert store.read("ranges", 300, 1) == body[300:301]
    assert store.read("ranges", 1000, 24) == body[1000:]
    for start, length in ((1000, 25), (1024, 1), (5000, 1)):
        with pytest.raises(Corrupt, match="ranges"):
            store.read("ranges", start, length)
    with pytest.raises(InvalidRequest):
        store.read("ranges", -1, 1)


def test_head_and_list_agree(store: Store) -> None:
    store.put("p/q/object", b"four")
    head = store.head("p/q/object")
    assert head is not None
    assert (head.key, head.size) == ("p/q/object", 4)
    (listed,) = store.list("p/").objects
    assert (listed.key, listed.size) == ("p/q/object", 4)


def test_list_takes_whole_folders_only(store: Store) -> None:
    for key in ("a/b/1", "a/b/2", "a/bc/3", "a/b.4", "ab/5", "z"):
        store.put(key, b"x")
    assert {found.key for found in store.list("a/b/").objects} == {"a/b/1", "a/b/2"}
    assert {found.key for found in store.list("a/").objects} == {"a/b/1", "a/b/2", "a/bc/3", "a/b.4"}
    assert len(store.list("").objects) == 6
    assert store.list("none/").objects == ()
    with pytest.raises(InvalidRequest, match="end it with '/'"):
        store.list("a/b")


def test_folders_are_the_names_directly_below(store: Store) -> None:
    for key in ("a/b/1", "a/b/c/2", "a/d/3", "a/file", "e/4"):
        store.put(key, b"x")
    assert list(store.folders("")) == ["a", "e"]
    assert list(store.folders("a/")) == ["b", "d"]
    assert list(store.folders("a/d/")) == []
    assert list(store.folders("none/")) == []


def test_delete_takes_many_keys_and_minds_no_missing_one(store: Store) -> None:
    for number in range(5):
        store.put(f"d/{number}", b"x")
    store.delete([f"d/{number}" for number in (0, 2, 4, 6)])
    assert {found.key for found in store.list("d/").objects} == {"d/1", "d/3"}
    store.delete([])


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_a_key_that_could_mean_another_object_is_refused(store: Store, key: str) -> None:
    for ask in (store.get, store.head, store.output, store.local_path, lambda key: store.create(key, b"")):
        with pytest.raises(InvalidRequest, match="is not allowed"):
            ask(key)
    with pytest.raises(InvalidRequest):
        store.delete(["fine", key])
    assert store.list("").objects == ()


def test_keys_may_hold_any_printable_character(store: Store) -> None:
    keys = ["günther & söhne/ä b+c%2F?#.x", "日本/データ", "a=b/~'()*!,;:@$"]
    for key in keys:
        assert store.create(key, key.encode()) is Outcome.CREATED
    assert {found.key for found in store.list("").objects} == set(keys)
    assert [found.body.decode() for key in keys if (found := store.get(key))] == keys
    store.delete(keys)
    assert store.list("").objects == ()


def test_an_output_appears_whole_at_close(store: Store) -> None:
    output = store.output("o/object")
    assert output.write(b"abc") == 3
    assert output.write(memoryview(b"def")) == 3
    assert output.write(pa.array([1, 2], pa.int32()).buffers()[1]) == 8
    assert store.get("o/object") is None
    assert store.list("").objects == ()
    output.close()
    output.close()
    output.abort()
    found = store.get("o/object")
    assert found is not None
    assert found.body == b"abcdef\1\0\0\0\2\0\0\0"


def test_an_aborted_output_never_appears(store: Store) -> None:
    output = store.output("o/object")
    output.write(b"abc")
    output.abort()
    output.close()
    output.abort()
    assert store.get("o/object") is None
    assert store.list("").objects == ()
    with pytest.raises(ValueError, match="closed"):
        output.write(b"more")


def test_an_output_replaces_an_object_only_at_close(store: Store) -> None:
    store.put("o/object", b"old")
    output = store.output("o/object")
    output.write(b"new")
    assert store.read("o/object", 0, 3) == b"old"
    output.close()
    assert store.read("o/object", 0, 3) == b"new"


def test_pyarrow_writes_parquet_into_an_output(store: Store) -> None:
    table = pa.table({"n": range(1000)})
    output = store.output("o/table.file")
    pq.write_table(table, output)
    output.close()
    found = store.get("o/table.file")
    assert found is not None
    assert pq.read_table(io.BytesIO(found.body)) == table


def test_modification_times_and_now_are_of_one_clock(store: Store) -> None:
    """Within two seconds: a Date and a Last-Modified have whole ones."""
    before = store.now()
    store.put("t", b"x")
    found = store.get("t")
    assert found is not None
    head = store.head("t")
    (listed,) = store.list("").objects
    assert head is not None
    assert found.modified_ms is not None
    assert head.modified_ms == listed.modified_ms == found.modified_ms
    assert before - 2000 <= found.modified_ms <= store.now() + 2000
    assert abs(store.now() - machine_ms()) < 10_000


def test_local_path_is_where_the_bytes_lie(store: Store) -> None:
    store.put("a/b", b"bytes")
    path = store.local_path("a/b")
    assert (path is not None) == isinstance(store, FileStore)
    assert path is None or path.read_bytes() == b"bytes"


def test_threads_share_a_store(store: Store) -> None:
    def write_and_read(number: int) -> bytes:
        store.put(f"threads/{number}", str(number).encode())
        found = store.get(f"threads/{number}")
        return found.body if found else b""

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write_and_read, range(24))) == [str(number).encode() for number in range(24)]
    assert len(store.list("threads/").objects) == 24


@pytest.mark.parametrize("store", ["memory", "file", "s3"], indirect=True)
def test_of_simultaneous_creates_one_wins(store: Store) -> None:
    writers, rounds = 8, 12
    barrier = threading.Barrier(writers)

    def attempt(number: int, writer: int) -> Outcome:
        barrier.wait()
        return store.create(f"race/{number}", f"writer {writer}".encode() * 100)

    with ThreadPoolExecutor(writers) as pool:
        for number in range(rounds):
            outcomes = list(pool.map(attempt, [number] * writers, range(writers)))
            assert sorted(outcome.name for outcome in outcomes) == ["CREATED"] + ["EXISTS"] * (writers - 1)
            found = store.get(f"race/{number}")
            assert found is not None
            assert found.body == f"writer {outcomes.index(Outcome.CREATED)}".encode() * 100


def test_a_store_is_never_pickled(store: Store) -> None:
    for one in (store, Metered(store)):
        with pytest.raises(TypeError, match=r"cannot be pickled|cannot leave its process"):
            pickle.dumps(one)


@pytest.mark.parametrize("store", ["file", "s3"], indirect=True)
def test_a_spec_opens_the_same_store_elsewhere(store: Store, tmp_path: os.PathLike[str]) -> None:
    metered = Metered(store)
    path = os.path.join(tmp_path, "credentials")
    written = metered.write_credentials(path)
    store.create("k", b"body")
    again = open_spec(metered.spec(path if written else None))
    found = again.get("k")
    assert found is not None
    assert found.body == b"body"
    assert again.url == store.url
    assert open_spec(metered.spec(path if written else None)) is again
