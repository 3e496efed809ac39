"""An error that is told apart inside the store alone; to everybody else it is Unavailable."""

from lithify.store.errors import Unavailable

__all__ = ["Unreachable"]


class Unreachable(Unavailable):
    """No connection could be made, so the request certainly did nothing."""
