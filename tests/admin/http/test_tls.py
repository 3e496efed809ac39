"""HTTPS: a client trusts what it is told to, a certificate is changed while the server runs, and that is all."""

import shutil
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

import lithify
from lithify.admin.http.client import CA_VARIABLE
from lithify.admin.http.server import Serving, serving
from tests.admin.served import running
from tests.store.certificate import make_certificate


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    return new_files(tmp_path / "first")


def new_files(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    _, public = make_certificate(folder)
    return public, folder / "key.pem"


@contextmanager
def served(warehouse: lithify.Warehouse, files: tuple[Path, Path]) -> Generator[Serving]:
    server = serving(warehouse, "127.0.0.1:0", certificate=files)
    with running(server):
        assert server.started.wait(60)
        yield server


def shown(server: Serving) -> str:
    """The certificate that the server gives to whoever connects now."""
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return ssl.get_server_certificate((parts.hostname, parts.port))


def test_a_client_that_trusts_the_certificate_is_answered(
    warehouse: lithify.Warehouse, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.create_topic("users")
    with served(warehouse, files) as server:
        assert server.url.startswith("https://127.0.0.1:")
        for variable in (CA_VARIABLE, "SSL_CERT_FILE"):
            with monkeypatch.context() as trusting:
                trusting.setenv(variable, str(files[0]))
                (topic,) = lithify.Admin(server.url).topics().items
                assert topic.topic == "users"


def test_a_client_that_does_not_is_told_what_to_do_and_sends_nothing(
    warehouse: lithify.Warehouse, files: tuple[Path, Path]
) -> None:
    with served(warehouse, files) as server:
        with pytest.raises(lithify.InvalidRequest, match=f"is not trusted .*{CA_VARIABLE}"):
            lithify.Admin(server.url).create_topic("users")
        plain = lithify.Admin(server.url.replace("https:", "http:"))
        with pytest.raises(lithify.Unavailable):
            plain.topics()
    assert lithify.Admin(warehouse).topics().items == ()


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_what_a_client_cannot_trust_by(content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if content is not None:
        (tmp_path / "ca").write_bytes(content)
    monkeypatch.setenv(CA_VARIABLE, str(tmp_path / "ca"))
    with pytest.raises(lithify.InvalidRequest, match=f"{CA_VARIABLE} names .* cannot be read"):
        lithify.Admin("https://127.0.0.1:1")
    lithify.Admin("http://127.0.0.1:1")  # needs none


def test_a_certificate_is_changed_while_the_server_runs(
    warehouse: lithify.Warehouse, files: tuple[Path, Path], tmp_path: Path
) -> None:
    first = files[0].read_text()
    public, key = new_files(tmp_path / "next")
    with served(warehouse, files) as server, capture_logs() as log:
        assert shown(server) == first
        shutil.copy(public, files[0])  # not yet with its key
        assert [shown(server), shown(server)] == [first, first]
        shutil.copy(key, files[1])
        assert shown(server) == public.read_text()
        files[0].unlink()
        assert shown(server) == public.read_text()
    told = [line for line in log if line["event"] == "certificate not read"]
    assert len(told) == 2
    assert "cannot be served" in told[0]["error"]
