"""What a listing of a chain says about where it ends: a place to begin, and no more (docs/rfcs/0034)."""

from lithify.manifest.keys import Chain
from lithify.store.errors import AccessDenied
from lithify.store.port import List

__all__ = ["last_listed"]


async def last_listed(chain: Chain) -> int | None:
    """The largest number that one page shows, at whatever time, in whatever order. 0: all was shown, and there is none.
    None: this page shows none, or we may not list, or looking for numbers costs this store less."""
    try:
        page = await List(chain.prefix, hint=True)
    except AccessDenied:
        return None
    last = max((chain.number(each.key) or 0 for each in page.objects), default=0)
    return last if last or page.token is None else None
