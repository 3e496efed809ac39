"""HTTPS: a client trusts what it is told to, a certificate is changed while the server runs, and that is all."""

import shutil
import socket
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

import lithify
from lithify.admin.http import connections
from lithify.admin.http import server as server_module
from lithify.admin.http.client import CA_VARIABLE
from lithify.admin.http.server import Serving, serving
from tests.admin.served import TIMEOUT_S, running
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
    warehouse: lithify.Warehouse, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No handshake looks at the files: all other connections would wait for it."""
    monkeypatch.setattr(server_module, "LOOK_S", TIMEOUT_S)
    first = files[0].read_text()
    public, key = new_files(tmp_path / "next")
    with served(warehouse, files) as server, capture_logs() as log:
        shutil.copy(public, files[0])  # not yet with its key
        for _ in range(2):
            server.look()
            assert shown(server) == first
        shutil.copy(key, files[1])
        assert shown(server) == first
        server.look()
        assert shown(server) == public.read_text()
        files[0].unlink()
        server.look()
        assert shown(server) == public.read_text()
    told = [line for line in log if line["event"] == "certificate not read"]
    assert len(told) == 2
    assert "cannot be served" in told[0]["error"]


def test_files_are_looked_at_while_the_server_runs(
    warehouse: lithify.Warehouse, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOOK_S", 0.01)
    public, key = new_files(tmp_path / "next")
    with served(warehouse, files) as server, capture_logs():
        shutil.copy(public, files[0])
        shutil.copy(key, files[1])
        while shown(server) != public.read_text():
            pass


def reached(server: Serving, stack: ExitStack) -> socket.socket:
    """Over TCP alone."""
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return stack.enter_context(socket.create_connection((parts.hostname, parts.port), TIMEOUT_S))


HELLO = bytes.fromhex("16030100c8010000c40303")  # the beginning of a handshake


@pytest.mark.parametrize("sent", [b"", HELLO, b"GET / HTTP/1.1\r\n\r\n"])
def test_a_handshake_that_does_not_end_is_given_up(
    sent: bytes, warehouse: lithify.Warehouse, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio waited for it for a minute."""
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.1)
    with served(warehouse, files) as server, ExitStack() as stack:
        connection = reached(server, stack)
        connection.sendall(sent)
        while connection.recv(65_536):  # an alert
            pass
        while server.connections:  # it is forgotten when the server next looks
            pass


def test_handshakes_that_do_not_end_keep_nobody_out(warehouse: lithify.Warehouse, files: tuple[Path, Path]) -> None:
    """They were not counted: whoever reaches the address took every descriptor of the process."""
    with served(warehouse, files) as server, ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(connections, "CONNECTIONS_MAX", 4)
        made = [reached(server, stack) for _ in range(12)]
        assert [each.recv(1) for each in made[:8]] == [b""] * 8
        assert server.connections == 4
        shown(server)
        assert made[8].recv(1) == b""


def test_a_server_ends_beside_a_handshake_that_does_not(warehouse: lithify.Warehouse, files: tuple[Path, Path]) -> None:
    with ExitStack() as stack:
        with served(warehouse, files) as server:
            connection = reached(server, stack)
            shown(server)  # so that it has seen both
        assert connection.recv(1) == b""


def test_a_server_ends_at_once_beside_a_client_that_keeps_its_connection(
    warehouse: lithify.Warehouse, files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """It waited ten seconds for the client's part in the end of TLS, which nobody reads there."""
    with ExitStack() as stack, caplog.at_level("ERROR", "uvicorn.error"):
        with served(warehouse, files) as server:
            context = ssl.create_default_context(cafile=str(files[0]))
            client = stack.enter_context(context.wrap_socket(reached(server, stack), server_hostname="127.0.0.1"))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while not found.endswith(b'{"status":"ok"}'):
                found += client.recv(65_536)
        assert client.recv(1) == b"", "TLS was ended as it should be"
    assert [record.getMessage() for record in caplog.records] == []


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(
    warehouse: lithify.Warehouse, files: tuple[Path, Path]
) -> None:
    with served(warehouse, files) as server, ExitStack() as stack:
        connection = reached(server, stack)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(files[0]))
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # the client is the last to speak
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65_536))
        client.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        connection.sendall(outgoing.read())
        found = b""
        while not found.endswith(b'{"status":"ok"}'):
            try:
                found += client.read(65_536)
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65_536))
        assert found.startswith(b"HTTP/1.1 200")
