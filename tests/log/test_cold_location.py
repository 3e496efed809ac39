"""What `cold.location` is refused when it is set, rather than when the first segment is due to move."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import structlog

import lithify
from lithify.log.cold_homes import check_cold_home
from lithify.store.driver import new_id
from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from lithify.store.port import ObjectInfo
from lithify.store.wrapped import Wrapped
from lithify.testing.server import S3Server

SetIt = Callable[[lithify.Warehouse, str], object]


def create(warehouse: lithify.Warehouse, location: str) -> object:
    return warehouse.create_topic("users", config={"cold.location": location}, probe=False)


def alter(warehouse: lithify.Warehouse, location: str) -> object:
    return warehouse.create_topic("users", probe=False).alter({"cold.location": location})


def admin(warehouse: lithify.Warehouse, location: str) -> object:
    return lithify.Admin(warehouse).create_topic("users", config={"cold.location": location}, probe=False)


@pytest.fixture(params=[create, alter, admin])
def set_it(request: pytest.FixtureRequest) -> SetIt:
    return request.param


@pytest.mark.parametrize(
    ("location", "hint"),
    [
        ("/mnt/cold", "file:///mnt/cold"),
        ("file://cold2", "file:///cold2"),
        ("FILE://cold2/x", "file:///cold2/x"),
        ("local://cold2", "file:///cold2"),
        ("cold2", "use s3://bucket/prefix, file:///folder"),
    ],
)
def test_a_path_is_refused_with_the_url_that_is_meant(set_it: SetIt, location: str, hint: str) -> None:
    with lithify.open(f"memory://{new_id()}") as warehouse, pytest.raises(InvalidRequest) as refused:
        set_it(warehouse, location)
    assert hint in str(refused.value)


def test_a_bucket_that_does_not_exist_is_refused_by_name(set_it: SetIt, lithify_s3: S3Server) -> None:
    location = f"s3://{new_id()}/cold"
    homes: Mapping[str, object] = {location: lithify_s3.options}
    with (
        lithify.open(f"memory://{new_id()}", storage_options={"homes": homes}) as warehouse,
        pytest.raises(InvalidRequest, match=r"cold.location cannot be used: .*create the bucket") as refused,
    ):
        set_it(warehouse, location)
    assert location in str(refused.value)


def test_one_that_refuses_access_is_refused(set_it: SetIt, monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, AccessDenied("no permission"))
    with lithify.open(f"memory://{new_id()}") as warehouse, pytest.raises(InvalidRequest, match="no permission"):
        set_it(warehouse, f"memory://{new_id()}")


def test_one_that_does_not_answer_now_is_taken_and_logged(set_it: SetIt, monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, Unavailable("it is down"))
    location = f"memory://{new_id()}"
    with lithify.open(f"memory://{new_id()}") as warehouse, structlog.testing.capture_logs() as logged:
        set_it(warehouse, location)
        assert warehouse.topic("users").config["cold.location"] == location
    (line,) = logged
    assert (line["event"], line["log_level"], line["home"]) == ("cold home does not answer", "warning", location)


def test_a_folder_that_is_not_there_yet_is_taken(set_it: SetIt, tmp_path: Path) -> None:
    with lithify.open(str(tmp_path / "warehouse")) as warehouse:
        set_it(warehouse, (tmp_path / "cold").as_uri())
    assert not (tmp_path / "cold").exists()


def _answers(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    head = MemoryStore.head

    def answer(self: MemoryStore, key: str) -> ObjectInfo | None:
        if key == "home.json":
            raise error
        return head(self, key)

    monkeypatch.setattr(MemoryStore, "head", answer)


class _InGcs(Wrapped):
    @property
    def url(self) -> str:
        return "gcs://bucket/warehouse"


def test_another_scheme_of_the_warehouses_own_place_is_refused() -> None:
    homes = only_here(_InGcs(MemoryStore()))
    for location in ("gs://bucket/warehouse/cold", "GCS://bucket"):
        with pytest.raises(InvalidRequest, match="own place"):
            check_cold_home({"cold.location": location}, homes)
