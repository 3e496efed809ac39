"""The segments of one partition that something came over, apart from the protocol."""

from typing import NamedTuple

__all__ = ["Harm", "Harms"]


class Harm(NamedTuple):
    """What came over a segment."""

    body: bytes  # as it was
    step: int
    shows: bool  # to who looks at its size and footer: it is gone, or too short
    home: str = ""  # the place that it is in


class Harms:
    """`now`: what is damaged at this step. `ever`: what was damaged at any step, too."""

    def __init__(self) -> None:
        self.now: dict[str, Harm] = {}
        self.ever: set[str] = set()
        self._until: dict[str, int] = {}  # the step at which a segment was last restored, or deleted while damaged

    def begin(self, segment_id: str, harm: Harm) -> None:
        self.now[segment_id] = harm
        self.ever.add(segment_id)

    def end(self, segment_id: str, step: int) -> None:
        if self.now.pop(segment_id, None) is not None:
            self._until[segment_id] = step

    def since(self, segment_id: str, step: int) -> bool:
        """Whether what was asked for at `step` or later may have been answered wrongly. Its reader may come to think
        about the answer only after the segment was restored."""
        return segment_id in self.now or self._until.get(segment_id, -1) >= step
