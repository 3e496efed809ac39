"""Every kind of URL that fsspec knows: a warehouse, a source or a target there opens, or one message says what is
missing. Without a network: no connection is made, and no name is looked up."""

import socket
from collections.abc import Callable
from typing import Any, NoReturn

import fsspec
import pytest

from lithify.cli.records.bulk import file_system
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable
from lithify.store.fsspec_opening import opening
from lithify.store.opening import open_store

SCHEMES = sorted(fsspec.available_protocols())
OPTIONS = {"hush_name": "hush-secret"}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def _told(call: Callable[[], object]) -> str:
    """The text of the error that `call` raises, which must be one of the two; empty: it raises none."""
    try:
        call()
    except (InvalidRequest, Unavailable) as error:
        return str(error)
    return ""


def _says_what_to_do(told: str) -> bool:
    words = ("needs a package", "which options", "it needs Java", "try again", "absolute path", "takes no storage")
    return any(each in told for each in (*words, "which lithify.Admin("))


@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["plain", "with options"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ftp's __del__ after a failed __init__
def test_a_warehouse_opens_or_says_what_is_missing(scheme: str, options: dict[str, str]) -> None:
    told = _told(lambda: open_store(f"{scheme}://host/x", options))
    assert "hush-secret" not in told
    assert not told or "unknown storage option" in told or _says_what_to_do(told)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_so_do_the_files_of_imports_and_exports(scheme: str) -> None:
    told = _told(lambda: file_system(f"{scheme}://host/x.csv", {}))
    assert not told or _says_what_to_do(told)


@pytest.mark.parametrize(
    ("url", "error", "kind", "words"),
    [
        ("hdfs://n/x", OSError("Unable to load libjvm: hush"), InvalidRequest, "it needs Java.*CLASSPATH"),
        ("gs://b/x", ImportError("Please install gcsfs"), InvalidRequest, "not installed here: Please install gcsfs"),
        ("sftp://h/x", TimeoutError("hush"), Unavailable, "could not be reached"),
        ("sftp://h/x", ConnectionRefusedError(111, "hush"), Unavailable, "could not be reached"),
        ("smb://h/x", socket.gaierror(-2, "hush"), Unavailable, "could not be reached"),
        ("zip://h/x", IsADirectoryError(21, "hush"), InvalidRequest, "which options fsspec's filesystem for zip://"),
        ("generic://h/x", RecursionError("hush"), InvalidRequest, "no storage options .RecursionError."),
    ],
)
def test_what_a_filesystem_raises_is_explained(
    url: str, error: Exception, kind: type[LithifyError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught, opening(url, {}):
        raise error
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_options_are_named_without_their_values() -> None:
    with pytest.raises(InvalidRequest, match=r"with the storage options hush_name .TypeError.") as caught:
        open_store("github://host/x", OPTIONS)
    assert "hush-secret" not in str(caught.value)
