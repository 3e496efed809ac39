"""`lithify serve` with a certificate."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from lithify.admin.http.client import CA_VARIABLE
from tests.cli.conftest import Lithify
from tests.cli.test_serve import ADMIN, ANY, refused, serving
from tests.store.certificate import make_certificate

pytestmark = pytest.mark.slow  # a process each


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    return make_certificate(tmp_path)[1], tmp_path / "key.pem"


def test_the_command(on_files: Lithify, files: tuple[Path, Path]) -> None:
    on_files.ok("topic", "create", "users")
    words = ["--http-cert", str(files[0]), "--http-key", str(files[1])]
    with serving(on_files, *ANY, *words) as (url, _):
        assert url.startswith("https://")
        asked = Lithify("", "--url", url)("topic", "list", "--json", env={CA_VARIABLE: str(files[0])})
        assert asked.exit_code == 0, asked.stderr


@pytest.mark.parametrize(
    ("cert", "key", "says"),
    [
        ("certificate.pem", None, "HTTPS needs both: give --http-cert and --http-key"),
        (None, "key.pem", "HTTPS needs both"),
        ("nothing.pem", "key.pem", "cannot be served: No such file"),
        ("certificate.pem", "certificate.pem", "not PEM files of a certificate"),
        ("certificate.pem", "locked.pem", "not PEM files of a certificate"),
    ],
)
def test_files_that_cannot_be_served(
    cert: str | None, key: str | None, says: str, on_files: Lithify, files: tuple[Path, Path]
) -> None:
    private = serialization.load_pem_private_key(files[1].read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    (files[1].parent / "locked.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    folder = files[0].parent
    given = {"--http-cert": cert, "--http-key": key}
    words = [word for flag, name in given.items() if name for word in (flag, str(folder / name))]
    code, line = refused(on_files, *ANY, *words)
    assert code == 2
    assert says in line


def test_beyond_loopback_tokens_are_needed_all_the_same(on_files: Lithify, files: tuple[Path, Path]) -> None:
    words = ["--http-cert", str(files[0]), "--http-key", str(files[1])]
    code, line = refused(on_files, "--http", "0.0.0.0:0", *words)
    assert code == 2
    assert "give tokens by" in line
    with serving(on_files, "--http", "0.0.0.0:0", *words, LITHIFY_HTTP_TOKENS=f"admin:{ADMIN}") as (url, _):
        assert url.startswith("https://0.0.0.0:")
