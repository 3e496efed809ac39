"""Errors that are told apart inside the store alone; to everybody else they are what they derive from."""

from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable

__all__ = ["Closed", "NotAsked", "Refused"]


class Closed(InvalidRequest):
    """The warehouse was closed, so the store was not asked."""


class NotAsked(AccessDenied):
    """There are no credentials, so the store was not asked."""


class Refused(Unavailable):
    """A connection was refused: nobody listens there, which was learned at once."""
