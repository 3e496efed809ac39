"""Where a first search of a chain begins, by a listing: it shows where to look, and proves nothing (docs/rfcs/0034)."""

from collections.abc import Callable
from typing import NamedTuple

from lithify.manifest.codec import boundary_seen
from lithify.manifest.keys import Chain
from lithify.store.port import Get, Glimpse, Head, Object, together

__all__ = ["Begin", "where_to_begin"]


class Begin(NamedTuple):
    number: int = 0
    since: int = 0  # all numbers from here to it were shown
    stored: Object | None = None  # what is there
    is_end: bool = False  # it was found after the listing, and the next number was not


async def where_to_begin(chain: Chain, suppose: Callable[[int], None]) -> Begin:
    """At the largest number that is shown: at whatever time, in whatever order, perhaps one page of many. `suppose` is
    told the boundary that its file names."""
    page = await Glimpse(chain.prefix)
    shown = {chain.number(each.key) or 0 for each in page.objects}
    last = since = max(shown, default=0)
    if last == 0:
        return Begin(is_end=page.token is None and await Head(chain.key(1)) is None)
    while since > 1 and since - 1 in shown:
        since -= 1
    there, after = await together([Get(chain.key(last)), Get(chain.key(last + 1))])
    if there is None:
        return Begin()
    suppose(boundary_seen(there.body))
    return Begin(last, since, there, is_end=True) if after is None else Begin(last + 1, since, after)
