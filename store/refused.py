"""Errors that are told apart inside the store alone; to everybody else they are what they derive from."""

from lithify.store.errors import AccessDenied, Unavailable

__all__ = ["NotAsked", "Refused"]


class NotAsked(AccessDenied):
    """There are no credentials, so the store was not asked."""


class Refused(Unavailable):
    """A connection was refused: nobody listens there, which was learned at once."""
