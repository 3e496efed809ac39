"""A daemon on a real S3 server compacts on request: from submission to its end over HTTP, the command line and Python.
Percentages never go back, what fails says why, and a client of events misses nothing."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import lithify
from lithify.events.changes import changes_of
from lithify.manifest.codec import decode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import Manifest
from tests.cli.conftest import Lithify
from tests.e2e.workload import CONFIG, Workload, scanned
from tests.service.conftest import Place
from tests.service.daemon import Daemon, Events, asked, followed

KINDS = {"manifest": Manifest, "compactor": CompactorState}
SUBMIT = {"sources": "full"}
Status = Callable[[], tuple[str, float]]


def told(info: Any) -> tuple[str, float]:
    """Of a compaction as JSON."""
    return info["status"], info["progress"]["completion_percentage"]


def over_http(daemon: Daemon, _: Place) -> tuple[str, Status]:
    job = asked("POST", f"{daemon.url}/v1/topics/users/partitions/0/compactions", SUBMIT)
    return job["id"], lambda: told(asked("GET", f"{daemon.url}/v1/compactions/{job['id']}"))


def by_commands(command: Lithify) -> tuple[str, Status]:
    (job,) = command.json("compaction", "submit", "users", "--full")
    return job["id"], lambda: told(command.json("compaction", "status", job["id"]))


def in_python(admin: lithify.Admin) -> tuple[str, Status]:
    job = admin.submit("users", 0)

    def status() -> tuple[str, float]:
        info = admin.compaction(job.id)
        return info.status, info.progress.completion_percentage

    return job.id, status


def by_commands_over_http(daemon: Daemon, _: Place) -> tuple[str, Status]:
    return by_commands(Lithify("", "--url", daemon.url))


def by_commands_directly(_: Daemon, place: Place) -> tuple[str, Status]:
    return by_commands(place.command)


def in_python_over_http(daemon: Daemon, _: Place) -> tuple[str, Status]:
    return in_python(lithify.Admin(daemon.url))


def in_python_directly(_: Daemon, place: Place) -> tuple[str, Status]:
    return in_python(lithify.Admin(place.open()))


WAYS = (over_http, by_commands_over_http, by_commands_directly, in_python_over_http, in_python_directly)


@pytest.fixture
def users(place: Place) -> lithify.Partition:
    """Nothing is due by itself here: each compaction is asked for."""
    config = {**CONFIG, "min.cleanable.dirty.ratio": 1, "l0.segments.tier": 1_000}
    return place.open().create_topic("users", 1, config).partition(0)


@pytest.mark.parametrize("way", WAYS)
def test_from_submission_to_its_end(way: Any, place: Place, users: lithify.Partition) -> None:
    workload = Workload(1, keys=8_000)
    with place.daemon() as daemon:
        for _ in range(4):
            workload.append(users, 4_000)
        id_, status = way(daemon, place)
        end, seen = followed(status)
        assert (end, seen[-1]) == ("completed", 100)
        assert seen == sorted(seen), "percentages never go back"
        print(f"{way.__name__}: {len(seen)} looks saw {sorted(set(seen))}")
        views = [
            asked("GET", f"{daemon.url}/v1/compactions/{id_}"),
            Lithify("", "--url", daemon.url).json("compaction", "status", id_),
            place.command.json("compaction", "status", id_),
        ]
        assert views[0] == views[1] == views[2]
        assert lithify.Admin(daemon.url).compaction(id_) == lithify.Admin(place.open()).compaction(id_)
        assert daemon.stop() == 0
    assert scanned(users) == workload.model


def test_what_fails_says_why(place: Place, users: lithify.Partition) -> None:
    Workload(2).append(users, 2_000)
    (segment,) = users.describe().l0
    key = next(key for key in keys(place) if segment.id in key)
    body = place.owner.client.get_object(Bucket=place.bucket, Key=key)["Body"].read()
    damaged = bytearray(body)
    damaged[len(body) // 3] ^= 0xFF
    place.owner.client.put_object(Bucket=place.bucket, Key=key, Body=bytes(damaged))
    with place.daemon() as daemon:
        id_, status = over_http(daemon, place)
        end, _ = followed(status)
        assert end == "failed"
        errors = [
            asked("GET", f"{daemon.url}/v1/compactions/{id_}")["error"],
            Lithify("", "--url", daemon.url).json("compaction", "status", id_)["error"],
            place.command.json("compaction", "status", id_)["error"],
        ]
        errors += [msgspec.to_builtins(lithify.Admin(at).compaction(id_).error) for at in (daemon.url, place.open())]
        (reason,) = {error["reason"] for error in errors}
        assert segment.id in reason
        assert "checksum" in reason or "damaged" in reason, reason
        explained = asked("GET", f"{daemon.url}/v1/topics/users/partitions/0/explain")
        assert "quarantined" in explained["reason"]
        place.owner.client.put_object(Bucket=place.bucket, Key=key, Body=body)
        asked("POST", f"{daemon.url}/v1/topics/users/partitions/0/retry")
        assert followed(over_http(daemon, place)[1])[0] == "completed"
        assert daemon.stop() == 0


def test_a_client_of_events_misses_nothing_though_it_is_cut_off_and_the_server_starts_again(
    place: Place, users: lithify.Partition
) -> None:
    Workload(3).append(users, 2_000)
    before = {chain: max(files, default=0) for chain, files in numbered(place).items()}
    client = Events()
    with place.daemon() as daemon:
        address = daemon.address
        client.connect(address)
        _, status = over_http(daemon, place)
        client.until(lambda event: event["event"] == "ranges_recorded")
        client.cut()  # in the middle of the job
        assert followed(status)[0] == "completed"
        Workload(4).append(users, 100)
        client.connect(address)
        client.until(lambda event: event["event"] == "appended")
        over_http(daemon, place)
        leaving = threading.Thread(target=daemon.stop)
        leaving.start()
        client.until(lambda _: False)  # to the end of the stream
        leaving.join()
    Workload(5).append(users, 100)  # while no server is there
    with place.daemon(address=address) as daemon:
        client.connect(address)
        followed(over_http(daemon, place)[1])
        Workload(6).append(users, 7)
        client.until(lambda event: event["event"] == "appended" and event["size"]["rows"] == 7)
        client.cut()
        written = numbered(place)  # once it stops, the daemon leaves, and nobody listens
        assert daemon.stop() == 0
    expected = [
        change.id
        for chain, files in written.items()
        for number, file in files.items()
        if number > before[chain]
        for change in changes_of(files.get(number - 1), file)
    ]
    told_ids = [id_ for stream in client.streams for id_ in stream]
    assert set(expected) - set(told_ids) == set()
    assert len(expected) > 20
    for stream in client.streams:  # each once, and those of a chain in its order
        for chain in KINDS:
            numbers = [[int(part) for part in id_.split("/")[3:]] for id_ in stream if f"/{chain}/" in id_]
            assert numbers == sorted(numbers)
            assert len(set(map(tuple, numbers))) == len(numbers)
    print(f"{len(expected)} changes, {len(told_ids)} told: the second server told some again")


def keys(place: Place) -> list[str]:
    pages = place.owner.client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def numbered(place: Place) -> dict[str, dict[int, Any]]:
    """Every file of both chains, by its number."""
    found: dict[str, dict[int, Any]] = {name: {} for name in KINDS}
    for key in keys(place):
        suffix = key.rpartition(".")[2]
        if suffix in KINDS:
            number = int(key.rpartition("/")[2].partition(".")[0])
            body = place.owner.client.get_object(Bucket=place.bucket, Key=key)["Body"].read()
            found[suffix][number] = decode(KINDS[suffix], body, key, number)
    return found
