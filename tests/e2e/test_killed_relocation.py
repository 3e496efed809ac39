"""A compactor that is killed at any of its requests to either store, while segments move to a cold home, or back: no
segment is lost or counted twice, and a sweep leaves no orphan in either home (docs/rfcs/0031)."""

from pathlib import Path

import pytest

from lithify.store.file import FileStore
from lithify.store.memory import MemoryStore
from lithify.store.owners import adopt_home, owner_key
from tests.e2e.mortal_homes import Place, killed_at, named

REQUESTS_MIN = 30  # fewer could not have moved these segments
LAST = 1_000
Records = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("way", ["there", "back"])
def test_at_every_request(place: Place, policy: str, way: str) -> None:
    place.prepare(policy, cold=way == "back")
    records, described = place.records(), place.described()
    assert described[1] >= 2, "one may have moved, and the other not"
    to = place.home if way == "there" else ""
    halfway = 0
    for number in range(1, LAST):
        place.restore()
        if not killed_at(place, number):
            break
        check_whole(place, records, described)
        halfway += bool(place.files()[""]) and bool(place.files()[place.home])
        place.compact()
        segments = place.head().segments()
        assert {each.home for each in segments} == {to}, f"killed at {number}"
        place.sweep()
        check_whole(place, records, described)
        for home, files in place.files().items():
            assert files == named(segments, home), f"killed at {number}: an orphan in {home or 'the warehouse'}"
    else:
        raise AssertionError("it never ended by itself")
    assert number > REQUESTS_MIN
    assert halfway, "no kill came in the middle of a copy"


def check_whole(place: Place, records: Records, described: tuple[int, int]) -> None:
    """Every segment is where the manifest says, and counts once."""
    segments, files = place.head().segments(), place.files()
    for home, there in files.items():
        assert named(segments, home).items() <= there.items()
    assert place.described() == described
    assert place.records() == records


@pytest.mark.slow
@pytest.mark.parametrize("becomes", ["another's", "unmounted"])
def test_a_job_that_is_resumed_asks_again_whose_the_home_is(place: Place, becomes: str) -> None:
    """Before it uploads anything: the other warehouse would sweep it, or it would lie in an empty mount point."""
    place.prepare("delete", cold=False)
    assert killed_at(place, 1, "output")
    assert not list(place.cold.rglob("*.parquet"))
    cold = FileStore(place.cold)
    manifest = place.head()
    owner = owner_key("users", manifest.topic_id)
    if becomes == "unmounted":
        cold.delete([owner])
    else:
        adopt_home(cold, owner, MemoryStore("another"), "1")
    (job,) = [job for job in place.compact().jobs if job.kind == "relocate"]
    assert job.error is not None
    assert (job.status, job.error.category) == ("failed", "unavailable" if becomes == "unmounted" else "invalid")
    assert not list(place.cold.rglob("*.parquet"))
