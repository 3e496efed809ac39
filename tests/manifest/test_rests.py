"""When a partition at rest is looked at again (docs/rfcs/0026)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lithify.gc.collector import GRACE_MS_MIN
from lithify.manifest.rests import BOUNDARY_MS, COLLECTED_AFTER_MS, Asks, Rests

ROUND_MS, BOUND_MS = 15_000, 300_000
ROUNDS_MAX = 200  # within a bound: an example takes five times as many steps
DAY_MS = 86_400_000


def looks(rests: Rests, name: str, until_ms: int) -> list[tuple[int, Asks]]:
    """What each round asked, from the rest's beginning at 0."""
    rest, found = rests.begin(name, 0), list[tuple[int, Asks]]()
    for now_ms in range(rests.round_ms, until_ms, rests.round_ms):
        asks = rest.asks(now_ms)
        rest.asked(asks, now_ms)
        if any(asks):
            found.append((now_ms, asks))
    return found


def test_looks_become_rare_and_ask_one_chain_each() -> None:
    found = looks(Rests(BOUND_MS, ROUND_MS), "users/1/00000", 3_600_000)
    assert [each for each, _ in found[:2]] == [ROUND_MS, 2 * ROUND_MS]
    assert [asks[:2] for _, asks in found[:2]] == [(True, True)] * 2, "at first both, in each round"
    assert [asks.manifest + asks.compactor for _, asks in found[6:]] == [1] * len(found[6:])
    assert len(found) < 36, "of 240 rounds"


@given(st.integers(1, BOUND_MS), st.floats(0, ROUNDS_MAX), st.text(max_size=4))
def test_no_chain_is_asked_later_than_the_bound_allows(round_ms: int, rounds: float, name: str) -> None:
    """Or, where rounds are further apart, in each round."""
    bound_ms = int(rounds * round_ms)
    found = looks(Rests(bound_ms, round_ms), name, 60 * round_ms + 5 * bound_ms)
    for chain in (0, 1):
        asked = [0, *(now_ms for now_ms, asks in found if asks[chain])]
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        assert max(gaps) <= max(bound_ms, round_ms)


def test_who_came_to_rest_together_is_not_looked_at_together() -> None:
    rests = Rests(BOUND_MS, ROUND_MS)
    rounds = [0] * 400
    for number in range(400):
        for now_ms, _ in looks(rests, f"users/1/{number:05}", 400 * ROUND_MS):
            rounds[now_ms // ROUND_MS] += 1
    assert max(rounds[200:]) < 2.5 * sum(rounds[200:]) / 200


def test_the_boundary_is_asked_for_every_few_hours_and_after_a_sleep() -> None:
    rests = Rests(BOUND_MS, ROUND_MS)
    asked = [now_ms for now_ms, asks in looks(rests, "users/1/00000", DAY_MS) if asks.boundary]
    assert DAY_MS // BOUNDARY_MS - 1 <= len(asked) <= DAY_MS // BOUNDARY_MS
    rest = rests.begin("users/1/00000", 0)
    assert not rest.asks(COLLECTED_AFTER_MS - 1).boundary
    assert rest.asks(COLLECTED_AFTER_MS).boundary, "meanwhile the next number may have come and been collected"
    assert COLLECTED_AFTER_MS == GRACE_MS_MIN < BOUNDARY_MS


def test_a_clock_that_steps_back_is_no_reason_to_wait() -> None:
    rest = Rests(BOUND_MS, ROUND_MS).begin("users/1/00000", DAY_MS)
    assert rest.asks(DAY_MS - 1) == Asks(True, True, True)


def test_without_a_bound_each_round_asks_everything() -> None:
    rests = Rests(0, ROUND_MS)
    assert [asks[:2] for _, asks in looks(rests, "users/1/00000", 3_600_000)] == [(True, True)] * 239
