"""A home that is named in another way is the same home: what lies there does not move. Pure."""

import pytest
from msgspec.structs import replace

from lithify.manifest.cold import elsewhere, to_relocate
from lithify.manifest.config import TopicConfig
from lithify.manifest.model import Manifest, SortedRun
from tests.compactor.test_policy import NOW_MS, config, head, segment


def settings(location: str) -> TopicConfig:
    return config(cold_location=location, local_retention_bytes="0", hot_retain_segments="0")


def lying_in(*homes: str) -> Manifest:
    """One segment in each; a manifest of before that has the spellings that were given then."""
    refs = [replace(segment(10 * at, 100), home=home, base_offset=None) for at, home in enumerate(homes)]
    runs = tuple(SortedRun(id=f"run {at}", segments=(ref,)) for at, ref in enumerate(refs))
    return head(runs=runs, homes=tuple(dict.fromkeys(filter(None, homes))), next_offset=1_000)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("gcs://b/p", "gs://b/p"),
        ("gs://b/p", "gcs://b/p"),
        ("ssh://host/p", "sftp://host/p"),
        ("az://c/p", "abfs://c/p"),
        ("s3a://b/p/", "s3://b/p"),
        ("s3://b/p", "s3://b/p"),
    ],
)
def test_what_lies_there_stays(was: str, now: str) -> None:
    manifest = lying_in(was, now)
    told = to_relocate(manifest, settings(now), NOW_MS, frozenset())
    assert told == f"everything is in {now} already"
    assert elsewhere(manifest, now) == []


def test_what_lies_in_another_home_moves() -> None:
    manifest = lying_in("gcs://b/p", "gs://b/q", "")
    due = to_relocate(manifest, settings("gs://b/p"), NOW_MS, frozenset())
    assert [unit.segments[0].home for unit in due if not isinstance(unit, str)] == ["gs://b/q", ""]
    assert len(elsewhere(manifest, "gs://b/p")) == 2
