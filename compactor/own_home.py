"""Whether a home other than the warehouse is there, and ours (docs/rfcs/0031)."""

from lithify.compactor.failures import met
from lithify.manifest.categories import Category
from lithify.manifest.jobs import JobError
from lithify.manifest.keys import PartitionKeys
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.port import OwnHome

__all__ = ["home_refuses"]


async def home_refuses(
    keys: PartitionKeys, home: str, *, claims: bool = False, renews: bool = False
) -> JobError | None:
    """Why nothing may be written to `home`, and nothing that was written there counts: it is away, or another
    warehouse's. `claims`, `renews`: as of OwnHome."""
    try:
        await OwnHome(home, keys.owner, claims=claims, renews=renews)
    except InvalidRequest as error:  # it is another warehouse's
        return JobError(Category.INVALID, str(error))
    except LithifyError as error:
        return met(error)
    return None
