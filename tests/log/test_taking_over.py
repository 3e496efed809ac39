"""Who is to replace an instance of a consumer does so, however that one commits; who is refused replaces nobody."""

from collections.abc import Callable

import pytest

from lithify.log.partition import Partition
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import Fenced, OffsetOutOfRange, Unavailable
from lithify.store.port import Pause
from tests.clock import HandClock
from tests.log.failing import FailingStore
from tests.log.test_consumer import stored
from tests.log.test_follow import COMPACTED, append, shown

Interfere = Callable[[], object]


def between_requests(store: FailingStore, act: Interfere, times: int) -> None:
    """`act` before each create of somebody else, so often; it is nobody's turn but its own meanwhile."""
    left = [act] * times

    def before(request: str, _key: str) -> None:
        if request == "create" and left:
            store.before = lambda _request, _key: None
            left.pop()()
            store.before = before

    store.before = before


def of_one_record_each(clock: HandClock, rows: int) -> tuple[FailingStore, Partition, Partition]:
    """A partition, and another process's handle of it."""
    store = FailingStore()
    handles: list[Partition] = []
    for number in range(2):
        driver = Driver(store, clock)
        answer = driver.answer
        driver.answer = lambda request, answer=answer: None if isinstance(request, Pause) else answer(request)
        opened = Warehouse(driver)
        topic = opened.topic("t") if number else opened.create_topic("t", probe=False)
        handles.append(topic.partition(0))
    append(handles[0], *(str(row) for row in range(rows)))
    return store, handles[0], handles[1]


@pytest.mark.parametrize("commits_between", [1, 9, 60])
@pytest.mark.parametrize("how", ["open", "reset", "scan"])
def test_who_commits_at_each_record_is_taken_over_and_reset_all_the_same(
    clock: HandClock, how: str, commits_between: int
) -> None:
    """Before, eight commits of the one that runs refused whoever was to replace it."""
    store, part, elsewhere = of_one_record_each(clock, 80)
    older = part.consumer("c", auto_commit_interval_ms=None)

    def deal_with_one() -> None:
        next(older)
        older.commit()

    deal_with_one()
    between_requests(store, deal_with_one, commits_between)
    if how == "open":
        newer = elsewhere.consumer("c")
        assert newer.position == older.position == commits_between + 1
    elif how == "scan":
        assert elsewhere.scan_and_follow("c").consumer is not None
    else:
        assert elsewhere.reset_consumer("c", "latest") == 80
    with pytest.raises(Fenced):
        deal_with_one()


def test_an_opening_that_is_refused_leaves_the_name_to_who_has_it(warehouse: Warehouse) -> None:
    """Before, it had taken the name by then, and the one that ran was refused."""
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(part, "a", "b", "c", "d")
    older = part.consumer("c")
    older.poll(max_records=2)
    older.commit()
    before = part.describe().manifest_id
    part.delete_records(3)
    with pytest.raises(OffsetOutOfRange, match="offset 2 lies outside the log, which begins at 3 and ends before 4"):
        part.consumer("c", auto_offset_reset="error")
    assert part.describe().manifest_id == before + 1  # the deletion
    assert shown(older.poll()) == [2, 3]  # it had read ahead
    older.close()
    assert stored(part) == 4


def test_what_fails_once_a_name_is_taken_is_told_by_the_next_poll(clock: HandClock) -> None:
    """Nothing is asked of the store after the commit that takes the name: no opening is refused then."""
    store, part, _ = of_one_record_each(clock, 3)
    part.consumer("c").close()
    taken: list[str] = []

    def before(request: str, key: str) -> None:
        if taken and not key.endswith(".boundary"):
            raise Unavailable(f"{request} {key}: after the commit")
        if request == "create":
            taken.append(key)

    store.before = before
    consumer = part.consumer("c")
    with pytest.raises(Unavailable):
        consumer.poll()
    store.before = lambda _request, _key: None
    assert shown(consumer.poll()) == [0, 1, 2]
    consumer.close()
