"""Listings, page after page."""

from collections.abc import AsyncIterator, Iterator

from lithify.store.port import HERE, List, ObjectInfo, Page, Store

__all__ = ["objects", "pages"]


async def pages(prefix: str, home: str = HERE) -> AsyncIterator[Page]:
    """The pages of the listing of `prefix`, for a coroutine. The next one is asked for only when it is wanted."""
    token: str | None = None
    while True:
        page = await List(prefix, token, home)
        yield page
        token = page.token
        if token is None:
            return


def objects(store: Store, prefix: str) -> Iterator[ObjectInfo]:
    """The objects under `prefix`, asked of the store itself."""
    token: str | None = None
    while True:
        page = store.list(prefix, token)
        yield from page.objects
        token = page.token
        if token is None:
            return
