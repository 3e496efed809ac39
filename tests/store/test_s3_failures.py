"""Whatever breaks while a reply is read is Unavailable, and was tried again: each exception of each library that reads
one, and real bodies that end early."""

import builtins
import http.client
import ssl
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp.client_exceptions
import aiohttp.http_exceptions
import botocore.exceptions
import fsspec
import fsspec.exceptions
import pytest
import urllib3.exceptions
import urllib3.response
from botocore.awsrequest import AWSResponse
from fsspec.implementations.memory import MemoryFileSystem

from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable
from lithify.store.fsspec_store import FsspecStore
from lithify.store.port import Outcome
from lithify.store.refused import NotAsked
from lithify.store.s3 import S3Store
from lithify.testing.front import Amount, Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.store.certificate import make_certificate

BODY = bytes(range(256)) * 100
# They say what the caller forgot, before anything is sent.
OURS: dict[type[Exception], type[LithifyError]] = {
    botocore.exceptions.LoginError: NotAsked,
    botocore.exceptions.NoCredentialsError: NotAsked,
    botocore.exceptions.NoRegionError: InvalidRequest,
    botocore.exceptions.ParamValidationError: InvalidRequest,
    botocore.exceptions.PartialCredentialsError: NotAsked,
    botocore.exceptions.ProfileNotFound: InvalidRequest,
    botocore.exceptions.SSOError: NotAsked,
}


# Of a service's description, or of a proxy's settings, before anything is sent.
NOT_OF_A_REPLY = (
    botocore.exceptions.MissingServiceIdError,
    botocore.exceptions.UndefinedModelAttributeError,
    urllib3.exceptions.ProxySchemeUnsupported,
)
# Their text needs what their constructors set; no other constructor matters here.
MADE_WITH: dict[type[Exception], tuple[Any, ...]] = {
    http.client.IncompleteRead: (b"by plan", 9),
    urllib3.exceptions.IncompleteRead: (7, 9),
    urllib3.exceptions.InvalidChunkLength: (urllib3.response.HTTPResponse(), b"by plan"),
    urllib3.exceptions.ReadTimeoutError: (None, "url", "by plan"),
}


def exceptions_of(*modules: ModuleType) -> list[type[Exception]]:
    """Those that say how something failed: no warnings, and not the one that carries S3's own refusal."""
    found = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Exception) and each.__module__ in (module.__name__, "builtins")
    }
    others = (Warning, botocore.exceptions.ClientError, *NOT_OF_A_REPLY)
    return sorted((each for each in found if not issubclass(each, others)), key=name)


def name(kind: type[Exception]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def made(kind: type[Exception]) -> Exception:
    return kind(*MADE_WITH[kind]) if kind in MADE_WITH else kind.__new__(kind, "by plan")


OF_THE_SYSTEM = [each for each in exceptions_of(builtins, ssl) if issubclass(each, OSError)]
OF_S3 = [*exceptions_of(botocore.exceptions, urllib3.exceptions, http.client), *OF_THE_SYSTEM]
OF_FSSPEC = [
    *exceptions_of(fsspec.exceptions, aiohttp.client_exceptions, aiohttp.http_exceptions, botocore.exceptions),
    *OF_THE_SYSTEM,
]


class BreaksOff:
    """The body of a reply, as urllib3 gives it, that raises."""

    def __init__(self) -> None:
        self.kind: type[Exception] = OSError
        self.raised = 0

    def read(self, *_: Any, **__: Any) -> bytes:
        self.raised += 1
        raise made(self.kind)

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()

    def close(self) -> None:
        """Nothing is open."""


@cache  # to make a client takes 0.1 s
def breaking_off(status: int) -> tuple[S3Store, BreaksOff]:
    """A store whose every reply has that status, sound headers, and a body that breaks off."""
    body = BreaksOff()
    client = {"endpoint_url": "http://127.0.0.1:1", "region_name": "us-east-1"}
    store = S3Store("bucket", "p", {"key": "k", "secret": "s", "client_kwargs": client}, pause=lambda _: None)
    date = "Sat, 21 Nov 2026 10:00:00 GMT"
    headers = {"etag": '"e"', "last-modified": date, "date": date, "content-length": "9"}

    def answer(request: Any, **_: Any) -> AWSResponse:
        ranged = {"content-range": "bytes 0-8/9"} if "Range" in request.headers else {}
        return AWSResponse(request.url, status, {**headers, **ranged}, body)

    for client in (store.conditional_client(), store.bulk_client()):
        client.meta.events.register("before-send.s3", answer)
    return store, body


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_S3, ids=name)
def test_each_exception_of_a_body_is_unavailable_and_was_tried_again(kind: type[Exception]) -> None:
    expected = next((told for ours, told in OURS.items() if issubclass(kind, ours)), Unavailable)
    for status in (200, 404):
        store, body = breaking_off(status)
        body.kind = kind
        reads: list[Callable[[], Any]] = [
            lambda store=store: store.get("k"),
            lambda store=store: store.read("k", 0, 9),
            lambda store=store: store.head("k"),
        ]
        others: list[Callable[[], Any]] = [
            lambda store=store: store.list(""),
            lambda store=store: store.folders(""),
            lambda store=store: store.delete(["k", "l"]),
            lambda store=store: store.delete(["k"]),
        ]
        for ask in (*reads, *others):
            body.raised = 0
            with pytest.raises(LithifyError, match=r"s3://bucket/p") as caught:
                ask()
            assert type(caught.value) is expected
            if ask in reads and status == 200 and not issubclass(kind, botocore.exceptions.BotoCoreError):
                assert body.raised == 4
        if status == 404:
            if expected is Unavailable:
                assert store.create("k", b"body") is Outcome.UNKNOWN
                continue
            with pytest.raises(expected):
                store.create("k", b"body")


def test_the_libraries_have_the_exceptions_that_escaped() -> None:
    names = set(map(name, OF_S3))
    assert {"urllib3.exceptions.SSLError", "urllib3.exceptions.DecodeError", "http.client.IncompleteRead"} <= names
    assert {"ssl.SSLEOFError", "builtins.ConnectionResetError", "builtins.TimeoutError"} <= names
    assert "aiohttp.client_exceptions.ClientPayloadError" in set(map(name, OF_FSSPEC))


class _BreaksOff(MemoryFileSystem):
    """A filesystem whose every call raises `kind`."""

    protocol = "breaksoff"
    kind: type[Exception] = OSError

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise made(self.kind)

    cat_file = info = find = ls = rm_file = pipe_file = makedirs = put_file = _raise


@pytest.mark.parametrize("kind", OF_FSSPEC, ids=name)
def test_each_exception_of_a_filesystem_is_unavailable(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("breaksoff", _BreaksOff, clobber=True)
    monkeypatch.setattr(_BreaksOff, "kind", kind)
    store = FsspecStore("breaksoff://root", proven=True)
    # What filesystems say of what is not there, or not allowed; the rest is trouble.
    told = (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError)
    asks: list[Callable[[], Any]] = [
        lambda: store.get("k"),
        lambda: store.read("k", 0, 9),
        lambda: store.head("k"),
        lambda: store.list(""),
        lambda: store.folders(""),
        lambda: store.put("k", b""),
    ]
    if issubclass(kind, PermissionError):
        assert store.delete(["k"]).keys() == {"k"}
    else:
        asks.append(lambda: store.delete(["k"]))
    for ask in () if issubclass(kind, told) else asks:
        with pytest.raises(LithifyError, match="breaksoff://root") as caught:
            ask()
        assert type(caught.value) is (AccessDenied if issubclass(kind, PermissionError) else Unavailable)
    if issubclass(kind, (PermissionError, NotImplementedError, TypeError)):
        with pytest.raises(AccessDenied if issubclass(kind, PermissionError) else InvalidRequest):
            store.create("k", b"")
    else:
        assert store.create("k", b"") is (Outcome.EXISTS if issubclass(kind, FileExistsError) else Outcome.UNKNOWN)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


class Cutting:
    """A store behind a front, with TLS or without, and how much of each reply to a GET that front lets through."""

    def __init__(self, server: S3Server, bucket: str, certificate: tuple[ssl.SSLContext, Path] | None) -> None:
        self.cuts = 0
        self.cut: Amount = "whole"
        self.front = Front(server.endpoint_url, rule=self._rule, tls=certificate[0] if certificate else None)
        options = self.front.options(server.options)
        options["client_kwargs"] |= {"verify": str(certificate[1])} if certificate else {}
        self.store = S3Store(bucket, "p", options, pause=lambda _: None)
        # Not by way of the front: it does not know the chunks in which boto3 uploads over TLS.
        S3Store(bucket, "p", server.options).put("k", BODY)

    def _rule(self, seen: Seen) -> Deed:
        if seen.method != "GET" or not self.cuts:
            return Deed()
        self.cuts -= 1
        return Deed(reply=self.cut)


@pytest.fixture(params=["http", "https"])
def cutting(
    request: pytest.FixtureRequest, lithify_s3: S3Server, bucket: str, certificate: tuple[ssl.SSLContext, Path]
) -> Iterator[Cutting]:
    made = Cutting(lithify_s3, bucket, certificate if request.param == "https" else None)
    yield made
    made.store.close()
    made.front.__exit__()


CUTS: tuple[Amount, ...] = ("half", "chunks", "bad chunk", "headers", "none", "reset")


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_a_reply_that_is_cut_is_asked_for_again_within_bounds(cut: Amount, cutting: Cutting) -> None:
    store = cutting.store
    asks: list[Callable[[], Any]] = [
        lambda: getattr(store.get("k"), "body", None) == BODY,
        lambda: store.read("k", 1000, 5000) == BODY[1000:6000],
        lambda: getattr(store.head("k"), "size", None) == len(BODY),
        lambda: [found.key for found in store.list("").objects] == ["k"],
    ]
    for ask in asks:
        cutting.cut, cutting.cuts = cut, 3
        assert ask()
        assert cutting.cuts == 0
        cutting.cuts = 1_000
        with pytest.raises(Unavailable, match=r"s3://.*/p"):
            ask()
        assert 1_000 - cutting.cuts <= 4 * 5


def test_a_range_shortened_on_the_way_is_no_damage(cutting: Cutting) -> None:
    """Half of it came, under its own length: only the range that the reply names tells that it is not whole."""
    cutting.cut, cutting.cuts = "shortened", 3
    assert cutting.store.read("k", 1000, 5000) == BODY[1000:6000]
    cutting.cuts = 4
    with pytest.raises(Unavailable, match="2500 bytes"):
        cutting.store.read("k", 1000, 5000)
