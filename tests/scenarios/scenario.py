"""Scenario files: Kafka's rules as data. What a file may say is listed in README.md beside it."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lithify

__all__ = ["LAYOUTS", "Scenario", "duration_ms", "load", "record", "said"]

FOLDER = Path(__file__).parent
LAYOUTS = ("l0", "tiered", "cleaned", "mixed")
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
NULL = "∅"

_TERM = re.compile(r"([+-]?)(\d+)(ms|s|m|h|d|w)")
_TERMS = re.compile(r"(?:[+-]?\d+(?:ms|s|m|h|d|w))+")
_FIELDS = {"title", "rules", "layouts", "partitions", "config", "step"}


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    rules: tuple[str, ...]
    layouts: tuple[str, ...]
    partitions: int
    config: dict[str, Any]
    steps: tuple[dict[str, Any], ...]


def load() -> list[Scenario]:
    return [_read(path) for path in sorted(FOLDER.glob("*.toml"))]


def _read(path: Path) -> Scenario:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    assert told.keys() <= _FIELDS, f"{path.name}: unknown {told.keys() - _FIELDS}"
    layouts = tuple(told.get("layouts", LAYOUTS))
    assert set(layouts) <= set(LAYOUTS), path.name
    assert any("expect" in step or "error" in step for step in told["step"]), f"{path.name} expects nothing"
    return Scenario(
        path.stem, told["title"], tuple(told["rules"]), layouts, told.get("partitions", 1), told.get("config", {}),
        tuple(told["step"]),
    )  # fmt: skip


def duration_ms(text: str) -> int:
    """ "6h+1ms" -> milliseconds."""
    assert _TERMS.fullmatch(text), f"{text!r} is no duration"
    return sum(int(sign + number) * UNITS_MS[unit] for sign, number, unit in _TERM.findall(text))


def record(text: str, now_ms: int) -> lithify.Record:
    """ "key=value @-1h {header:value}": time and headers may be left out; ∅ is null."""
    found = re.fullmatch(r"([^=]*)=(\S*)(?: @(\S+))?(?: \{(\w+):(\w*)\})?", text)
    assert found, f"{text!r} is no record"
    key, value, since, header, content = found.groups()
    stamp_ms = None if since is None else now_ms + duration_ms(since)
    headers = () if header is None else ((header, content.encode()),)
    return lithify.Record(_bytes(key), _bytes(value), stamp_ms, headers)


def said(record: lithify.Record) -> str:
    """A record as scenario files spell it, without its time."""
    headers = "".join(f" {{{name}:{(content or b'').decode()}}}" for name, content in record.headers)
    return f"{_text(record.key)}={_text(record.value)}{headers}"


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else text.encode()


def _text(value: bytes | None) -> str:
    return NULL if value is None else value.decode()
