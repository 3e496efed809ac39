"""A run list is damaged or missing (docs/rfcs/0027): what commands show and advise is enough to get on."""

import json
from pathlib import Path

import pytest
import xxhash

from tests.cli.conftest import Lithify, changes

COMPACT = ("compactor", "run", "--once", "--engine", "local", "--no-gc")
VERIFY = ("verify", "--engine", "local")
EAGER = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")


@pytest.fixture(autouse=True)
def _everything_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users", *EAGER)
    on_files.ok("append", "users", input=changes(20))
    on_files.ok(*COMPACT)
    return on_files


def run_list(folder: Path) -> Path:
    (found,) = folder.glob("users/*/*/manifest/*.runs")
    return found


def key(folder: Path, of: Path) -> str:
    return of.relative_to(folder).as_posix()


@pytest.mark.parametrize("missing", [True, False])
def test_the_manifest_still_shows_what_the_list_must_be(users: Lithify, folder: Path, *, missing: bool) -> None:
    """Before, only `--number N --json` did, and nothing said so."""
    path = run_list(folder)
    body = path.read_bytes()
    figures = f"run list: {key(folder, path)}, 1 segment, {len(body)} bytes, xxh3 {xxhash.xxh3_64_hexdigest(body)}"
    assert f"{figures}\n" in users.ok("manifest", "show", "users")
    sound = users.json("manifest", "show", "users")
    if missing:
        path.unlink()
    else:
        path.write_bytes(body[:-2] + b"!\n")
    assert users.json("manifest", "show", "users") == sound
    assert sound["lists"][0]["bytes"] == len(body)
    result = users("manifest", "show", "users")
    assert result.exit_code == 9
    how = "missing; restore the object" if missing else "damaged (it fails its checksum)"
    assert f"{figures}. It is {how}" in result.stdout
    assert "segments in run lists are not shown" in result.stdout
    assert key(folder, path) in result.stderr


def test_what_cannot_be_read_is_not_called_empty(users: Lithify, folder: Path) -> None:
    run_list(folder).unlink()
    for words in (COMPACT, VERIFY):
        result = users(*words)
        assert result.exit_code == 9
        row = next(line for line in result.stdout.splitlines() if line.startswith("users"))
        assert "0 B" not in row
        assert "segments 0" not in row


@pytest.fixture
def pinned(users: Lithify, folder: Path) -> str:
    """The key of the manifest of a checkpoint whose run list is missing; the head is whole."""
    (name,) = users.json("checkpoint", "create", "users", "before")
    first = run_list(folder)
    users.ok("append", "users", input=changes(20))
    users.ok(*COMPACT)
    for _ in range(2):
        users.ok("gc", "run", "--once", "--gc-grace-ms", "0")
    first.unlink()
    return key(folder, first.with_name(f"{name['checkpoint']['manifest']:020}.manifest"))


def test_what_a_checkpoint_may_need_is_not_called_an_orphan(users: Lithify, pinned: str) -> None:
    result = users(*VERIFY)
    assert result.exit_code == 9
    assert pinned in result.stdout
    assert "users/0: whether the unnamed objects are garbage cannot be judged" in result.stdout
    assert "are orphans" not in result.stdout


def test_once_the_checkpoint_is_gone_a_sweep_is_advised_and_ends_it(users: Lithify, folder: Path, pinned: str) -> None:
    assert "checkpoint delete users before" in users("gc", "run", "--dry-run", "--sweep").stdout
    users.ok("checkpoint", "delete", "users", "before")
    told = users.ok("gc", "run", "--once", "--gc-grace-ms", "0")
    number = int(Path(pinned).stem)
    assert f"manifest {number}'s run list is missing; 'lithify gc run --sweep' removes what it named, unless" in told
    for flags in (("--dry-run",), ()):
        swept = json.loads(users.ok("gc", "run", "--gc-grace-ms", "0", "--sweep", "--json", *flags))
        (part,) = swept["partitions"]
        assert pinned in {each["key"] for each in part["deleted"]}
        assert pinned not in {each["key"] for each in part["kept"]}
    assert not (folder / pinned).exists()
    assert "run list" not in users.ok("gc", "run", "--once", "--gc-grace-ms", "0")
    assert "is intact" in users.ok(*VERIFY)
    assert len(list(folder.glob("users/*/*/segments/*.parquet"))) == 1
