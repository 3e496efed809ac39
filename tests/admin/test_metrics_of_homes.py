"""What is known by home: sizes, requests and their dollars, whether it is there. Without homes, nothing is asked."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

import lithify
from lithify.admin.gauges import gauged
from lithify.admin.home_watch import HomeWatch, RecentHomes
from lithify.admin.metrics import Metrics
from lithify.store.cold import Cold
from lithify.store.errors import Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import ObjectInfo
from lithify.store.prices import CLASSES, GB
from lithify.store.wrapped import Wrapped
from tests.clock import HandClock

OWNER = "users/topic-id/home.json"


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def metrics_of(warehouse: lithify.Warehouse) -> Metrics:
    homes = warehouse.driver.homes
    return Metrics(lithify.Admin(warehouse, survey_ms=0).overview, homes.here.requests, homes=homes)


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def warehouse(tmp_path: Path, cold: Path) -> Iterator[lithify.Warehouse]:
    """Of topic users one segment is hot, and one cold."""
    warehouse = lithify.open(tmp_path / "hot")
    config = {"cleanup.policy": "compact", "cold.location": cold.as_uri()}
    topic = warehouse.create_topic("users", config=config, probe=False)
    admin, compactor = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    topic.append([lithify.Record(b"old", b"0")])
    admin.submit("users", 0)
    compactor.run_once()
    admin.relocate("users", 0)
    compactor.run_once()
    topic.append([lithify.Record(b"new", b"1")])
    compactor.close()
    yield warehouse
    warehouse.close()


def test_sizes_and_requests(warehouse: lithify.Warehouse, cold: Path) -> None:
    found, home = samples(metrics_of(warehouse)), cold.as_uri()
    assert found["lithify_home_segments", "warehouse", "users"] == 1
    assert found["lithify_home_segments", home, "users"] == 1
    info = warehouse.topic("users").partition(0).describe()
    assert found["lithify_home_bytes", home, "users"] == info.runs[0].segments[0].bytes
    assert found["lithify_home_garbage_bytes", "warehouse", "users"] > 0
    assert found["lithify_home_requests_total", home, "output_requests"] >= 1
    assert found["lithify_home_request_bytes_total", home, "written"] >= info.runs[0].segments[0].bytes
    assert found["lithify_home_request_dollars_total", home, "output_requests"] == 0, "a disk of one's own"


def test_a_home_that_is_not_mounted_is_away(warehouse: lithify.Warehouse, cold: Path) -> None:
    metrics, name = metrics_of(warehouse), ("lithify_home_away", cold.as_uri())
    assert samples(metrics)[name] == 0
    aside = cold.rename(cold.with_name("unmounted"))
    assert samples(metrics)[name] == 1
    (state,) = lithify.Admin(warehouse, survey_ms=0).overview().homes
    assert "is the home mounted?" in state.away
    aside.rename(cold)
    assert samples(metrics)[name] == 0


class Hanging(Wrapped):
    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.inner.put(OWNER, b"{}")
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.asked = 0

    def hasty(self) -> "Hanging":
        return self

    def head(self, key: str) -> ObjectInfo | None:
        self.asked += 1
        self.begun.set()
        self.go_on.wait()
        return self.inner.head(key)


def test_a_home_that_hangs_is_away_and_holds_up_nobody() -> None:
    home, hanging = "s3://cold/p", Hanging()
    watch = HomeWatch(Homes({HERE: MemoryStore(), home: Cold(home, hanging)}), wait_ms=1)
    for _ in range(2):
        (state,) = watch.look({home: OWNER, "class:STANDARD_IA": OWNER})
        assert state.away.startswith("no answer")
    assert hanging.begun.wait(60)
    assert hanging.asked == 1, "it is not asked again before it has answered"
    hanging.go_on.set()
    patient = HomeWatch(Homes({HERE: MemoryStore(), home: Cold(home, hanging)}), wait_ms=60_000)
    assert [state.away for state in patient.look({home: OWNER})] == [""]


def test_a_home_that_refuses_is_away_and_says_why() -> None:
    watch = HomeWatch(Homes({HERE: MemoryStore()}))
    (state,) = watch.look({"s3://cold/p": OWNER})
    assert "cannot reach home" in state.away


def test_retrieval_is_priced_by_the_class() -> None:
    store = Metered(MemoryStore())
    store.put("a/b/c", b"x" * 1000)
    store.read("a/b/c", 0, 400)
    store.count_copied(600)  # by the store itself, which charges for that, too
    name = "class:GLACIER_IR"
    metrics = Metrics(
        lambda: lithify.Admin(lithify.open("memory://prices")).overview(), store.requests, homes=[(name, store)]
    )
    found, prices = samples(metrics), CLASSES["GLACIER_IR"]
    dollars = {key[2]: value for key, value in found.items() if key[0] == "lithify_home_request_dollars_total"}
    assert dollars["reads"] == pytest.approx(prices.get)
    assert dollars["puts"] == pytest.approx(prices.put)
    assert dollars["retrieval"] == pytest.approx(1000 / GB * prices.retrieved_gb)


def test_homes_beyond_the_bound_are_summed() -> None:
    stores = [(f"s3://cold-{number}/p", Metered(MemoryStore())) for number in range(20)]
    for _, store in stores:
        store.get("k/k/k")
    found = samples(
        Metrics(lambda: lithify.Admin(lithify.open("memory://many")).overview(), stores[0][1].requests, homes=stores)
    )
    gets = {
        key[1]: value for key, value in found.items() if key[0] == "lithify_home_requests_total" and key[2] == "gets"
    }
    assert len(gets) == 17
    assert gets["_other"] == 4


def test_sizes_in_homes_beyond_the_bound_are_summed(warehouse: lithify.Warehouse) -> None:
    overview = lithify.Admin(warehouse).overview()
    (one,) = overview.partitions
    many = [
        replace(one, partition=number, homes=(one.homes[0], replace(one.homes[1], home=f"s3://cold-{number:02}/p")))
        for number in range(20)
    ]
    found = gauged(replace(overview, partitions=tuple(many)), 10)["lithify_home_segments"]
    assert len(found) == 18
    assert found["users", "_other"] == 4
    assert found["users", "warehouse"] == 20


def test_without_homes_a_survey_asks_nothing_more() -> None:
    warehouse = lithify.open("memory://unset")
    warehouse.create_topic("users", probe=False).append([lithify.Record(b"k", b"v")])
    admin = lithify.Admin(warehouse, survey_ms=0)
    admin.overview()
    before = warehouse.store.requests()
    assert admin.overview().homes == ()
    assert (warehouse.store.requests() - before).total == 4, "a listing, the topic's file, and two GETs"
    assert [home for home, _ in warehouse.driver.homes] == [HERE]


def test_a_home_is_asked_once_for_many_partitions() -> None:
    """And one that is away is away for every topic in it; what nobody has claimed is so for one topic."""
    clock, homes = HandClock(0), {"s3://one": Counted(), "s3://two": Counted()}
    homes["s3://two"].away = True
    recent = RecentHomes(Homes({HERE: MemoryStore(), **homes}), clock)
    for topic in ("users", "clicks"):
        for _ in range(5):
            one, two = recent.look(dict.fromkeys(homes, f"{topic}/topic-id/home.json"))
            assert one.away.startswith(f"there is no {topic}/")
            assert "gone" in two.away
    assert [home.asked for home in homes.values()] == [2, 1]
    homes["s3://two"].away = False
    clock.now_ms += 10_000
    assert recent.look({"s3://two": OWNER})[0].away.startswith("there is no ")
    assert homes["s3://two"].asked == 2


class Counted(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked, self.away = 0, False

    def head(self, key: str) -> ObjectInfo | None:
        self.asked += 1
        if self.away:
            raise Unavailable("gone")
        return super().head(key)
