"""`lithify serve` as a process, and the commands that ask it with `--url`."""

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Lithify
from tests.cli.test_process import TIMEOUT_S, Process

READ, ADMIN, NEXT = "r" * 32, "a" * 32, "n" * 32
ANY = ["--http", "127.0.0.1:0"]


@contextmanager
def serving(warehouse: Lithify, *words: str, **env: str) -> Iterator[tuple[str, Process]]:
    """Its address, the first line of its output; it ends as it is told."""
    with Process(warehouse.url, "serve", *words, "--log-format", "json", **env) as process:
        assert process.of.stdout is not None
        yield process.of.stdout.readline().strip(), process
        process.of.send_signal(signal.SIGTERM)
        assert process.end() == 0, process.said


def refused(warehouse: Lithify, *words: str, **env: str) -> tuple[int, str]:
    """The exit code, and the one line that it says."""
    with Process(warehouse.url, "serve", *words, **env) as process:
        out, err = process.of.communicate(timeout=TIMEOUT_S)
        assert out == ""
        (line,) = err.splitlines()
        return process.of.returncode, line


def status(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.slow
def test_the_commands_for_operators_through_a_server(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input='{"key": "a", "value": "1"}\n{"key": "a", "value": "2"}\n')
    with serving(on_files, *ANY) as (url, _):
        far = Lithify("", "--url", url)
        assert far.json("topic", "list") == on_files.json("topic", "list")
        assert far.json("topic", "describe", "users") == on_files.json("topic", "describe", "users")
        made = far("topic", "create", "more", "--partitions", "2", env={"LITHIFY_COMPACTOR_PROBE": "true"})
        assert made.exit_code == 0
        assert on_files.json("topic", "describe", "more") == far.json("topic", "describe", "more")
        (job,) = far.json("compaction", "submit", "users", "--full")
        for words in (["status", job["id"]], ["list", "users"], ["list"]):
            told = [asked.json("compaction", *words) for asked in (far, on_files)]
            assert told[0] == told[1], words
        explained = [asked.json("compaction", "explain", "users")[0] for asked in (far, on_files)]
        assert explained[0] | {"at_ms": 0} == explained[1] | {"at_ms": 0}
        assert far.json("compaction", "cancel", job["id"])["id"] == job["id"]
        far.ok("checkpoint", "create", "users", "mine")
        assert far.json("checkpoint", "list", "users") == on_files.json("checkpoint", "list", "users")
        far.ok("checkpoint", "delete", "users", "mine")
        assert far.json("consumer", "list", "users") == on_files.json("consumer", "list", "users") == []
        assert far.json("gc", "run", "--once", "--dry-run") == on_files.json("gc", "run", "--once", "--dry-run")
        missing = far("topic", "describe", "nobody")
        assert (missing.exit_code, missing.stderr) == (3, on_files("topic", "describe", "nobody").stderr)
        assert far.ok("manifest", "show", "users") == on_files.ok("manifest", "show", "users")
        for words in (["append", "users"], ["manifest", "show", "users", "--json"]):
            store_only = far(*words, input="{}")
            assert store_only.exit_code == 2
            assert "give --warehouse URL, not --url" in store_only.stderr


@pytest.mark.slow
def test_tokens_are_changed_while_it_runs(on_files: Lithify, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read:{READ}\nadmin:{ADMIN}\n")
    with serving(on_files, *ANY, "--http-tokens", str(tokens)) as (url, process):
        asked = f"{url}/v1/topics"
        assert [status(asked, token) for token in (READ, ADMIN, NEXT)] == [200, 200, 401]
        tokens.write_text(f"read:{NEXT}\nadmin:{ADMIN}\n")
        while status(asked, READ) == 200:  # it looks once in a second
            pass
        assert [status(asked, token) for token in (READ, ADMIN, NEXT)] == [401, 200, 200]
        tokens.write_text("nonsense")
        process.until("tokens not read")
        assert [status(asked, token) for token in (READ, NEXT)] == [401, 200]
        far = Lithify("", "--url", url)
        refused_one = far("topic", "list", env={"LITHIFY_HTTP_TOKEN": READ})
        assert refused_one.exit_code == 7
        assert "401 Unauthorized" in refused_one.stderr
        assert far("topic", "list", env={"LITHIFY_HTTP_TOKEN": ADMIN}).exit_code == 0
    assert not any(token in line for line in process.said for token in (READ, ADMIN, NEXT))


def test_an_address_in_use(on_files: Lithify) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = refused(on_files, "--http", address)
    assert (code, address in line, "in use" in line) == (7, True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--http", "0.0.0.0:0"], "give tokens by --http-tokens FILE or LITHIFY_HTTP_TOKENS"),
        (["--http", "[::]:0"], "give tokens by"),
        (["--http", "nonsense"], "is not an address; give HOST:PORT"),
        (["--http", "127.0.0.1:65536"], "is not an address"),
        (["--http", "127.0.0.1:" + "9" * 5_000], "is not an address"),
        (["--http", "\udcff:80"], "is not an address"),
        ([*ANY, "--http-tokens", "/nothing/here"], "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(words: list[str], says: str, on_files: Lithify) -> None:
    code, line = refused(on_files, *words)
    assert code == 2
    assert says in line


def test_without_its_extra(on_files: Lithify, tmp_path: Path) -> None:
    for name in ("starlette", "uvicorn"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')")
    code, line = refused(on_files, *ANY, PYTHONPATH=str(tmp_path))
    assert code == 2
    assert "is not installed: pip install 'lithify[http]'" in line


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://h", "http://[::1", "http://h:x", "http://u:p@h"])
def test_a_wrong_url_is_told(url: str) -> None:
    found = Lithify("", "--url", url)("topic", "list")
    assert found.exit_code == 2
    assert "server" in found.stderr


def test_nobody_at_the_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = Lithify("", "--url", f"http://127.0.0.1:{port}")("topic", "list", "--json")
    assert found.exit_code == 7
    assert json.loads(found.stderr)["error"]["kind"] == "Unavailable"
