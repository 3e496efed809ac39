"""What a home costs, by its name. Pure."""

from lithify.store.home_names import storage_class
from lithify.store.port import HERE
from lithify.store.prices import CLASSES, FREE, STANDARD, Prices

__all__ = ["prices_of"]


def prices_of(home: str) -> Prices:
    """The warehouse, and any s3:// URL, is taken for S3 Standard: which class a bucket's own rules choose cannot be
    seen from here. Other URLs cost nothing that is known here."""
    named = storage_class(home)
    if named is not None:
        return CLASSES.get(named, STANDARD)
    return STANDARD if home == HERE or home.startswith(("s3://", "s3a://")) else FREE
