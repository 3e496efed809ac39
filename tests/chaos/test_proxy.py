"""The real S3 store before a real server, and between them a proxy that fails a third of all requests: six writers,
two rival compactors, two collectors. Then nothing fails any more, and everything is checked (P1-P7, P16-P19)."""

import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

import lithify
from lithify.testing.front import Deed, Front, Seen
from tests.chaos.actors import PARTITIONS, TOPICS, Collecting, Compacting, IdempotentWriter, PlainWriter
from tests.chaos.aftermath import Aftermath
from tests.chaos.faults import KINDS, Faults
from tests.chaos.lineage import Ledger
from tests.chaos.records import Tally, Told
from tests.endpoint import Endpoint

VARIABLE = "LITHIFY_TEST_SEED"
SEED = int(os.environ.get(VARIABLE, "20261121"))
FAULTY_SHARE = 0.36
GRACES_MS = (0, 3_000)  # of the collectors: the first forgets at once


@contextmanager
def storm(server: Endpoint, seed: int, appends: int, records: int, lives: int) -> Generator[Aftermath]:
    """Each plain writer does `appends` appends, each idempotent one sends `records` records to each topic
    and is opened anew `lives` times."""
    bucket = server.create_bucket()
    place = f"{bucket}/some/warehouse"
    faults, ledger, told, tally = Faults(seed, FAULTY_SHARE), Ledger(place), Told(), Tally()

    def rule(seen: Seen) -> Deed:
        ledger.coming(seen)
        return faults(seen)

    with Front(server.endpoint_url, rule=rule, observe=ledger) as front:

        def opened() -> lithify.Warehouse:
            return lithify.open(server.url(place), storage_options=front.options(server.options))

        with opened() as warehouse:
            for name, config in TOPICS.items():
                warehouse.create_topic(name, PARTITIONS[name], config)
        faults.on = True
        plain = [PlainWriter(opened(), f"plain-{n}", seed, told, tally) for n in range(3)]
        idempotent = [IdempotentWriter(opened(), f"producer-{n}", told, tally) for n in range(3)]
        serving = [Compacting(opened(), f"compactor-{n}", seed, tally).run for n in range(2)]
        serving += [Collecting(opened(), f"collector-{n}", seed, tally, g).run for n, g in enumerate(GRACES_MS)]
        writing = [lambda one=one: one.run(appends) for one in plain]
        writing += [lambda one=one: one.run(records, lives) for one in idempotent]
        _run(writing, serving)
        faults.on = False
        front.drain()
        with opened() as warehouse:
            yield Aftermath(warehouse, faults, ledger, told, tally, {one.name: records for one in idempotent})
    server.delete_bucket(bucket)


def _run(writing: list[Callable[[], None]], serving: list[Callable[[threading.Event], None]]) -> None:
    stopped = threading.Event()
    with ThreadPoolExecutor(len(writing) + len(serving)) as pool:
        others = [pool.submit(serve, stopped) for serve in serving]
        writers = [pool.submit(write) for write in writing]
        wait(writers)
        stopped.set()
        for one in (*writers, *others):
            one.result()


def check(server: Endpoint, appends: int, records: int, lives: int, commits: int) -> None:
    try:
        with storm(server, SEED, appends, records, lives) as after:
            print(after.told_of())
            after.check()
            assert after.commits >= commits
            assert after.faults.share >= 0.3
            assert commits < 1_000 or set(after.faults.faulty) == KINDS
    except Exception as error:
        error.add_note(f"again: {VARIABLE}={SEED} .venv/bin/python -m pytest -m '' -s tests/chaos/test_proxy.py")
        raise


@pytest.mark.slow
def test_a_short_storm_loses_and_doubles_nothing(server: Endpoint) -> None:
    check(server, appends=5, records=3, lives=1, commits=40)


@pytest.mark.soak
@pytest.mark.long
def test_a_thousand_commits_are_neither_lost_nor_doubled(server: Endpoint) -> None:
    # 3 plain writers commit 810 times, 3 producers' 600 records take at least 200 more, three at a time
    check(server, appends=270, records=100, lives=3, commits=1_000)
