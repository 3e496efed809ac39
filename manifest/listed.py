"""Where a first search of a chain begins, by a listing: it shows where to look, and proves nothing (docs/rfcs/0034)."""

from collections.abc import Callable
from typing import NamedTuple

from lithify.manifest.codec import boundary_seen
from lithify.manifest.keys import Chain
from lithify.store.port import Get, Glimpse, Head, Object, together

__all__ = ["Begin", "where_to_begin"]


class Begin(NamedTuple):
    number: int = 0
    stored: Object | None = None  # what is there
    is_end: bool = False  # it was found after the listing, and the next number was not


async def where_to_begin(chain: Chain, suppose: Callable[[int], None]) -> Begin:
    """At the largest number that is shown: at whatever time, in whatever order, perhaps one page of many. `suppose` is
    told the boundary that its file names."""
    page = await Glimpse(chain.prefix)
    last = max((chain.number(each.key) or 0 for each in page.objects), default=0)
    if page.token is not None:
        return Begin(last)
    if last == 0:
        return Begin(0, None, await Head(chain.key(1)) is None)
    there, after = await together([Get(chain.key(last)), Get(chain.key(last + 1))])
    if there is None:
        return Begin()
    suppose(boundary_seen(there.body))
    return Begin(last, there, True) if after is None else Begin(last + 1, after)
