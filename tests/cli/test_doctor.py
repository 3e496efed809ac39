"""`lithify doctor`."""

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Lithify, lines


def checks(lithify: Lithify) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in lithify.json("doctor", "--rounds", "1")["checks"]}


def test_a_place_that_is_fit(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2")
    found = checks(on_files)
    assert {check["verdict"] for name, check in found.items() if name.startswith("store: ")} == {"ok"}
    assert found["topics"]["detail"] == "2 partitions are readable"
    assert "fit" in on_files.ok("doctor", "--rounds", "1")


def test_debt_that_nobody_pays(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=lines({"key": "k", "value": "v", "timestamp_ms": 1}))
    found = checks(on_files)["users/0"]
    assert found["verdict"] == "warning"
    assert "is a compactor running?" in found["detail"]


def test_an_s3fs_of_the_trap(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.2" if name == "s3fs" else real(name))
    assert checks(on_files)["s3fs"]["verdict"] == "warning"


def test_no_java_and_no_space_are_warnings(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.work.java.find_java", lambda: None)
    monkeypatch.setattr("lithify.cli.doctor._FREE_BYTES_MIN", 1 << 60)
    found = checks(on_files)
    assert found["java"]["verdict"] == found["temporary folder"]["verdict"] == "warning"


def test_damage_that_needs_a_person(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("topic", "create", "others")
    for file in (folder / "users").rglob("*.topic"):
        file.write_bytes(b"{")
    result = on_files("doctor", "--rounds", "1")
    assert result.exit_code == 9
    assert "topic users" in result.stdout
    assert "1 partition is readable" in result.stdout
