"""Histories that once failed, kept as files: seed, mask, and what was found."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.sim.history import Found, Mask

__all__ = ["FOLDER", "load", "save", "stored"]

FOLDER = Path(__file__).parent / "regressions"


def stored(mask: Mask) -> dict[str, Any]:
    found = asdict(mask)
    found["without"], found["calm"] = sorted(mask.without), sorted(map(list, mask.calm))
    return found


def save(name: str, found: Found, mask: Mask, folder: Path = FOLDER) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    body = {"seed": found.seed, "found": found.violation, "mask": stored(mask)}
    path.write_text(json.dumps(body) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> tuple[int, Mask]:
    body = json.loads(path.read_text(encoding="utf-8"))
    mask = body["mask"]
    turns = None if mask["turns"] is None else tuple((name, count) for name, count in mask["turns"])
    calm = frozenset((name, number) for name, number in mask["calm"])
    return body["seed"], Mask(frozenset(mask["without"]), calm, turns, mask["bright"])
