"""The reply of every third numbered PUT is lost after it was stored, or something on the way sends it twice: no double
commit, no lost commit (P1)."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

import lithify
from lithify.store.errors import AccessDenied, CommitUnknown
from lithify.testing.faults import lose_replies
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned


@pytest.mark.slow
def test_every_third_reply_lost(lithify_warehouse: lithify.Warehouse) -> None:
    warehouse = lithify_warehouse
    warehouse.create_topic("users", 1, {**CONFIG, "l0.segments.tier": 4})
    workload = Workload(6)
    with lose_replies(warehouse.store, every=3) as replies:
        compactor = lithify.Compactor(warehouse, engine="local")
        ranges: list[range] = []
        for _ in range(5):
            partition = warehouse.topic("users").partition(0)  # anew: with no grace, handles go stale
            ranges += [workload.append(partition, 100) for _ in range(3)]
            compactor.run_once()
            lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)
        compactor.close()
    partition = warehouse.topic("users").partition(0)
    assert replies.lost >= 10
    assert [offset for offsets in ranges for offset in offsets] == list(range(workload.appended))
    assert partition.describe().next_offset == workload.appended
    assert scanned(partition) == workload.model
    state = warehouse.driver.run(partition_files(warehouse, "users").compactor_state())
    assert state is not None
    assert not state.jobs
    assert {job.status for job in state.history} == {"completed"}


class Repeating:
    """Sends every n-th conditional PUT twice, and answers the next GET of that key, if it is to, with 403."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._numbers = count(1)
        self._expired: set[str] = set()
        self.twice = self.denied = 0

    def __call__(self, seen: Seen) -> Deed:
        key = seen.path.partition("?")[0]
        if seen.method == "GET" and key in self._expired:
            self._expired.remove(key)
            self.denied += 1
            return Deed(forward=False, status=403, code="RequestExpired")
        if not seen.conditional or next(self._numbers) % self._every:
            return Deed()
        self.twice += 1
        if self.twice % 2:
            self._expired.add(key)
        return Deed(twice=True)

    def rest(self) -> None:
        self._every = 10**9
        self._expired.clear()


@pytest.fixture
def repeating(lithify_s3: S3Server) -> Iterator[tuple[Repeating, lithify.Warehouse]]:
    rule, bucket = Repeating(every=3), lithify_s3.create_bucket()
    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        url, options = lithify_s3.url(f"{bucket}/w"), front.options(lithify_s3.options)
        with lithify.open(url, storage_options=options) as warehouse:
            yield rule, warehouse
    lithify_s3.delete_bucket(bucket)


@pytest.mark.slow
def test_every_third_is_sent_twice(
    repeating: tuple[Repeating, lithify.Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not read whose the file is cannot know whether its commit happened. Nothing is deleted over that: neither
    what was appended, nor run lists that the new head names."""
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    rule, warehouse = repeating
    warehouse.create_topic("users", 1, {**CONFIG, "l0.segments.tier": 2}, probe=False)
    known, unknown = set[bytes](), set[bytes]()
    for number in range(16):
        key = b"%d" % number
        try:
            warehouse.topic("users").partition(0).append([lithify.Record(key, b"v")])
            known.add(key)
        except CommitUnknown:
            unknown.add(key)
        except AccessDenied:
            continue  # before its create: it is certain that it was not appended
        if number % 4 == 3:
            with suppress(AccessDenied), lithify.Compactor(warehouse, engine="local") as compactor:
                compactor.run_once(take_over=True)
                lithify.Collector(warehouse, grace_ms=0).run_once(sweep=True)
    assert rule.twice > 6
    assert rule.denied > 3
    assert unknown
    rule.rest()
    partition = warehouse.topic("users").partition(0)
    there = scanned(partition).keys()
    assert known <= there <= known | unknown
    assert partition.append([lithify.Record(b"last", b"v")])
