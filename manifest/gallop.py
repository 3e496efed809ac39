"""Finding the end of a dense stretch of numbers: in strides that double, then between the last two; many looks at once
(docs/rfcs/0023)."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

__all__ = [
    "NARROW_LOOKS",
    "NEAR_MAX",
    "NEAR_SMALL",
    "STRIDES",
    "STRIDES_FIRST",
    "STRIDES_FIRST_SMALL",
    "end_of_stretch",
]

STRIDES_FIRST = 6  # looks of the first round: 1, 2, 4 … 32 numbers ahead
STRIDES_FIRST_SMALL = 3  # in a chain that is short as a rule, or whose end is nearly known
NEAR_SMALL = 3  # there, the numbers of the first round that are looked at one by one: 1, 2, 3, and 4 by a stride
STRIDES = 8  # of each later round
NARROW_LOOKS = 15  # between two strides: 15 numbers are told apart in one round, 255 in two
NEAR_MAX = 31  # numbers of the first round that are looked at one by one, if about so many are expected
_STRIDE_MAX = 62  # 2 to the power of this: keys have 20 digits

Look = Callable[[Sequence[int]], Awaitable[Sequence[bool]]]
"""Which of these numbers are there, asked at once."""


async def end_of_stretch(low: int, look: Look, strides: int, near: int = 0) -> int | None:
    """The last number of the dense stretch above `low`, or `low` itself. None: every number seems to be there. The
    first round also looks at each of the next `near` numbers: if the stretch ends among them, it is the only one.

    The looks of a round are made in any order while numbers are being added. A number that is there proves that those
    before it were, so what counts is the largest of these, and the smallest above it that is not.
    """
    reached, absent, first = low, None, 0
    while absent is None:
        if first >= _STRIDE_MAX:
            return None
        last = min(first + strides, _STRIDE_MAX)
        ahead = {1 << power for power in range(first, last)}.union(range(1, near + 1))
        reached, absent = await _looked(reached, absent, [low + step for step in sorted(ahead)], look)
        first, strides, near = last, STRIDES, 0
    while absent - reached > 1:
        reached, absent = await _looked(reached, absent, _between(reached, absent), look)
        assert absent is not None
    return reached


async def _looked(reached: int, absent: int | None, numbers: Sequence[int], look: Look) -> tuple[int, int | None]:
    found = dict(zip(numbers, await look(numbers), strict=True))
    reached = max((number for number, there in found.items() if there), default=reached)
    missing: Iterable[int] = (number for number, there in found.items() if not there and number > reached)
    return reached, min(missing, default=absent)


def _between(reached: int, absent: int) -> list[int]:
    """At most NARROW_LOOKS numbers between these, evenly spread."""
    looks = min(absent - reached - 1, NARROW_LOOKS)
    return [reached + (absent - reached) * place // (looks + 1) for place in range(1, looks + 1)]
