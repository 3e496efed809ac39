"""What happens while somebody waits: one step of a script for each pause, then the time to stop. Nobody sleeps."""

from collections import deque
from collections.abc import Callable
from typing import Any

from lithify.log.warehouse import Warehouse
from lithify.store.port import Pause, Request

Step = Callable[[], object]


class Script:
    """`stop` is true once the script is at its end and was waited for once more."""

    def __init__(self, warehouse: Warehouse, *steps: Step) -> None:
        self.steps = deque(steps)
        self.pauses_ms: list[int] = []
        self.over = False
        self._acting = False
        answer = warehouse.driver.answer

        def scripted(request: Request[Any]) -> Any:
            if not isinstance(request, Pause):
                return answer(request)
            if self._acting:
                return None  # a step waits itself, between two tries of a commit
            self.pauses_ms.append(request.ms)
            if self.steps:
                self._acting = True
                self.steps.popleft()()
                self._acting = False
            else:
                assert not self.over, "waited on after it was to stop"
                self.over = True
            return None

        warehouse.driver.answer = scripted

    def stop(self) -> bool:
        return self.over
