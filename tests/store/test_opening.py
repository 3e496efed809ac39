"""URLs, options and specs: what opens, what is refused with what words, and that no secret gets out."""

import os
import pickle
import stat
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lithify.store import fsspec_store
from lithify.store.credentials import read_credentials, write_credentials
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError
from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.opening import open_spec, open_store
from lithify.store.port import Outcome, StoreSpec
from lithify.store.s3 import S3Store
from lithify.store.s3_options import S3Options
from lithify.testing.front import Deed, Front
from lithify.testing.server import S3Server

SECRETS = {"key": "AKIA-visible-nowhere", "secret": "hush-secret", "token": "hush-token"}


@pytest.mark.parametrize(
    ("url", "kind", "opened"),
    [
        ("s3://bucket", S3Store, "s3://bucket"),
        ("s3://bucket/a/b/", S3Store, "s3://bucket/a/b"),
        ("S3://bucket/a", S3Store, "s3://bucket/a"),
        ("s3a://bucket/a", S3Store, "s3://bucket/a"),
        ("file:///a/b/", FileStore, "file:///a/b"),
        ("file://localhost/a", FileStore, "file:///a"),
        ("/a/b", FileStore, "file:///a/b"),
        ("memory://opening", MemoryStore, "memory://opening"),
        ("local:///tmp", FileStore, "file:///tmp"),
    ],
)
def test_urls(url: str, kind: type, opened: str) -> None:
    store = open_store(url)
    assert type(store.inner) is kind
    assert store.url == opened
    assert open_store(store.url).url == opened
    assert open_spec(store.spec()).url == opened


def test_plain_paths_are_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("here/there")
    monkeypatch.chdir("/")
    assert store.create("k", b"x") is Outcome.CREATED
    assert (tmp_path / "here/there/k").read_bytes() == b"x"


def test_a_path_is_as_good_as_its_text(tmp_path: Path) -> None:
    assert open_store(tmp_path / "w").create("k", b"x") is Outcome.CREATED
    assert open_store(str(tmp_path / "w")).url == open_store(tmp_path / "w").url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no URL given"),
        ("file://host/folder", "absolute path"),
        ("s3://", "s3://bucket/prefix"),
        ("s3:///prefix", "s3://bucket/prefix"),
        ("s3://user:hush-secret@bucket/p", "put credentials into the storage options"),
        ("s3://bucket/p?endpoint=x", "has no '\\?'"),
        ("s3://bucket/a/../b", "not allowed"),
        ("nosuch://x", "not a known kind of store"),
        ("a\0b", "a URL has no NUL"),
        ("file:///a\0b", "a URL has no NUL"),
        ("ftp://user:hush-secret@host/x", "put credentials into the storage options"),
        ("gs://bucket/x", "gcsfs"),
        ("s3:/bucket/hush-secret", "begins with s3://; a folder of that name is ./s3:…"),
        ("file:/tmp/x", "begins with file://"),
        (None, "not NoneType"),
        (7, "not int"),
    ],
)
def test_a_bad_url_gets_one_clear_message(url: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acces_key": "x"}, "unknown storage option acces_key; known are .*client_kwargs.*key.*secret"),
        ({"client_kwargs": {"regionname": "x"}}, "unknown client_kwargs entry regionname; known are .*region_name"),
        ({"s3_additional_kwargs": {"SSE": "x"}}, "unknown s3_additional_kwargs entry SSE"),
        ({"client_kwargs": "x"}, "client_kwargs must be a mapping"),
        ({"key": "hush-secret"}, "'key' and 'secret' belong together"),
        ({"endpoint_url": "http://me:hush-secret@host"}, "endpoint_url holds a URL with a user"),
        ({"config_kwargs": {"proxies": {"http": "http://me:hush-secret@host"}}}, "config_kwargs holds a URL"),
        ({"config_kwargs": {"proxies": {"https": "me:hush-secret@host:3128"}}}, "config_kwargs holds a URL"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        open_store("s3://bucket/p", options)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"config_kwargs": {"no_such_setting": 1}},
        {"endpoint_url": "no url"},
        {"profile": "no-such-profile"},
        {"client_kwargs": {"region_name": "no region!"}},
    ],
)
def test_options_that_make_no_client_are_the_callers_error(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"no S3 client can be made|s3://bucket"):
        open_store("s3://bucket/p", options).create("k", b"")


@pytest.mark.parametrize("url", ["file:///x", "memory://x"])
def test_options_where_none_are_taken(url: str) -> None:
    with pytest.raises(InvalidRequest, match="takes no storage options, but was given endpoint_url"):
        open_store(url, {"endpoint_url": "x"})


@pytest.mark.parametrize("url", ["http://host:8080", "https://me:hush@host/w", "HTTP://host"])
def test_a_server_is_no_store(url: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"address of a server, which lithify.Admin\('https?://…'\) asks"
    ) as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


def test_a_memory_url_is_one_store_for_the_process() -> None:
    clock = [5]
    store = open_store("memory://one/", clock=lambda: clock[0])
    store.create("k", b"x")
    clock[0] = 6
    found = open_store("memory://one").get("k")
    assert found is not None
    assert (found.body, found.modified_ms, open_store("memory://one").now()) == (b"x", 5, 6)
    assert open_store("memory://other").get("k") is None


def test_secrets_show_nowhere(tmp_path: Path, lithify_s3: S3Server) -> None:
    texts: list[str] = []
    body = SECRETS["secret"].encode()

    def collect(ask: Callable[[], Any]) -> None:
        try:
            ask()
        except LithifyError as error:
            texts.extend(traceback.format_exception(error))

    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(forward=False, status=403, code="AccessDenied")) as front:
        client = {"endpoint_url": front.endpoint_url, "region_name": "us-east-1"}
        store = open_store("s3://bucket/p", {**SECRETS, "client_kwargs": client})
        for ask in (
            lambda: store.create("k", body),
            lambda: store.get("k"),
            lambda: store.put("k", body),
            lambda: store.delete(["k", "l"]),
            lambda: store.list(""),
        ):
            collect(ask)
        assert len(front.seen) == 6, "a batch of deletions that is refused as a whole is tried with one key"
    collect(lambda: store.create("k", body))  # nobody listens any more
    collect(lambda: store.get("k"))
    inner = store.inner
    assert isinstance(inner, S3Store)
    texts += [repr(store), str(store), repr(inner), repr(store.spec()), repr(S3Options(SECRETS)), f"{vars(inner)}"]
    texts.append(msgspec.json.encode(store.spec(str(tmp_path / "credentials"))).decode())
    assert texts
    assert not [text for text in texts for secret in ("AKIA", "hush") if secret in text]
    for secretive in (store, inner, S3Options(SECRETS)):
        with pytest.raises(TypeError):
            pickle.dumps(secretive)


def test_a_spec_carries_what_is_no_secret() -> None:
    options = {**SECRETS, "client_kwargs": {"verify": False}, "config_kwargs": {"s3": {"x": 1}}, "anon": True}
    spec = open_store("s3://bucket/p", options).spec()
    assert spec.options.keys() == {"client_kwargs", "config_kwargs", "anon"}
    assert spec.options["client_kwargs"]["verify"] is False
    assert spec.options["config_kwargs"]["s3"]["x"] == 1
    assert msgspec.json.decode(msgspec.json.encode(spec), type=StoreSpec) == spec


@pytest.mark.slow
def test_workers_of_this_machine_read_secrets_from_a_private_file(
    lithify_s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    store = open_store(f"s3://{bucket}/p", lithify_s3.options)
    path = tmp_path / "credentials"
    assert store.write_credentials(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_spec(store.spec(str(path))).create("k", b"x") is Outcome.CREATED
    path.unlink()
    elsewhere = open_spec(store.spec(os.fspath(tmp_path / "on another machine")))
    with pytest.raises(AccessDenied, match="check the credentials"):
        elsewhere.get("k")


def test_without_explicit_secrets_no_file_is_written(tmp_path: Path) -> None:
    for url in ("s3://bucket/p", "file:///x", "memory://x"):
        assert not open_store(url).write_credentials(tmp_path / "credentials")
    assert list(tmp_path.iterdir()) == []


def test_a_credentials_file_is_never_written_over_another(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    write_credentials(SECRETS, path)
    assert read_credentials(path) == SECRETS
    with pytest.raises(InvalidRequest, match="credentials"):
        write_credentials(SECRETS, path)
    path.write_text("hush-secret")
    with pytest.raises(InvalidRequest, match="delete it") as caught:
        read_credentials(path)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_what_fsspec_options_hold_counts_as_secret(tmp_path: Path) -> None:
    store = FsspecStore("local:///tmp", {"auto_mkdir": True})
    assert store.spec().options == {}
    assert store.write_credentials(tmp_path / "credentials")
    assert read_credentials(tmp_path / "credentials") == {"auto_mkdir": True}


def test_the_clock_of_a_filesystem_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic, told = [1_000], [5_000]
    monkeypatch.setattr(fsspec_store, "_modified_ms", lambda info: told[0])
    store = FsspecStore(f"file://{tmp_path}")
    store._clock._monotonic = store._clock._machine = lambda: monotonic[0]
    assert store.now() == 5_000
    told[0] += 3_600_000
    monotonic[0] += 59_999
    assert store.now() == 64_999
    monotonic[0] += 1
    assert store.now() == 3_605_000
