"""An error that is told apart inside the store alone; to everybody else it is Unavailable."""

from lithify.store.errors import Unavailable

__all__ = ["Refused"]


class Refused(Unavailable):
    """A connection was refused: nobody listens there, which was learned at once."""
