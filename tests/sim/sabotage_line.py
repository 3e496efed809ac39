"""What a sabotage is."""

from typing import NamedTuple

__all__ = ["Sabotage"]


class Sabotage(NamedTuple):
    name: str
    rule: str
    file: str
    old: str  # its first occurrence is replaced
    new: str
    focus: str = ""  # of the histories in which it shows soonest (tests/sim/foci.py)
    test: str = ""  # that fails with it, where histories come into its circumstances too rarely
