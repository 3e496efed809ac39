"""`lithify doctor --url`: is a server there, does its store answer, and does anything need a person?"""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Lithify, lines
from tests.cli.test_serve import ANY, READ, serving

pytestmark = pytest.mark.slow  # a process each


def doctor(url: str, token: str = "") -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the checks by name."""
    found = Lithify("", "--url", url)("doctor", "--json", env={"LITHIFY_HTTP_TOKEN": token})
    answer = json.loads(found.stdout)
    assert answer["url"] == url
    return found.exit_code, {check["name"]: check for check in answer["checks"]}


def test_what_it_finds(on_files: Lithify, folder: Path) -> None:
    later = ("--config", f"message.timestamp.after.max.ms={(1 << 63) - 1}")
    on_files.ok("topic", "create", "users", *later)
    on_files.ok("topic", "create", "others")
    on_files.ok("append", "users", input=lines({"key": "k", "value": "v", "timestamp_ms": 1 << 42}))
    with serving(on_files, *ANY) as (url, _):
        code, found = doctor(url)
        assert (code, found["server"]["verdict"]) == (0, "ok")
        assert found["topics"]["detail"] == "2 partitions are readable"
        assert "in the future: until then, retention.ms deletes nothing" in found["users/0"]["detail"]
        assert "fit" in Lithify("", "--url", url).ok("doctor")
        for file in (folder / "others").rglob("*.topic"):
            file.write_bytes(b"{")
        code, found = doctor(url)
        assert (code, found["topic others"]["verdict"]) == (9, "failure")


def test_a_server_that_wants_a_token(on_files: Lithify) -> None:
    with serving(on_files, *ANY, LITHIFY_HTTP_TOKENS=f"read:{READ}") as (url, _):
        code, found = doctor(url)
        assert (code, found["server"]["verdict"], found["topics"]["verdict"]) == (7, "ok", "failure")
        assert "401" in found["topics"]["detail"]
        assert doctor(url, READ)[0] == 0


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, found = doctor(f"http://127.0.0.1:{port}")
    assert (code, [*found]) == (7, ["server"])
    assert "does not answer" in found["server"]["detail"]


def test_a_server_whose_store_is_away(on_files: Lithify) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = {"LITHIFY_STORAGE_OPTION": f"key=k secret=s client_kwargs.endpoint_url=http://127.0.0.1:{port}"}
    with serving(Lithify("s3://bucket/warehouse"), *ANY, **gone) as (url, _):
        code, found = doctor(url)
    assert (code, [*found]) == (7, ["server"])
    assert "the store does not answer" in found["server"]["detail"]
