"""How long a promise was in force: time counts while somebody is there to keep it."""

from bisect import bisect_right

__all__ = ["Served", "Span"]


class Span:
    """A clock that runs at times: the served time up to any moment. `over`: of which it is a part."""

    def __init__(self, now_ms: int, over: "Span | None" = None, *, runs: bool = True) -> None:
        self._over = over
        self._at_ms = [now_ms]
        self._so_far = [0]
        self._runs = [runs]

    @property
    def runs(self) -> bool:
        return self._runs[-1]

    def settle(self, now_ms: int) -> None:
        """Time has come to now."""
        if self._over is not None:
            self._over.settle(now_ms)

    def turn(self, now_ms: int, *, runs: bool) -> None:
        self.settle(now_ms)
        self._turn(now_ms, runs=runs)

    def _turn(self, now_ms: int, *, runs: bool) -> None:
        if runs != self._runs[-1]:
            so_far = self.at(now_ms)
            self._at_ms.append(max(now_ms, self._at_ms[-1]))
            self._so_far.append(so_far)
            self._runs.append(runs)

    def at(self, ms: int) -> int:
        place = max(bisect_right(self._at_ms, ms) - 1, 0)
        if not self._runs[place]:
            return self._so_far[place]
        return self._so_far[place] + self._passed(self._at_ms[place], max(ms, self._at_ms[place]))

    def _passed(self, from_ms: int, to_ms: int) -> int:
        return to_ms - from_ms if self._over is None else self._over.at(to_ms) - self._over.at(from_ms)

    def since(self, from_ms: int, now_ms: int) -> int:
        return self.at(now_ms) - self.at(from_ms)


class Served(Span):
    """Whether those who serve are there; after each disturbance they have some time until they are at work again."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms, runs=False)
        self._quiet_until_ms = now_ms
        self._there = False
        self.disturbances: list[int] = []

    def disturbed(self, now_ms: int, allowance_ms: int, *, there: bool) -> None:
        self.settle(now_ms)
        self.disturbances.append(now_ms)
        self._there = there
        self._quiet_until_ms = max(self._quiet_until_ms, now_ms + allowance_ms)
        self._turn(now_ms, runs=False)

    def settle(self, now_ms: int) -> None:
        if self._there and not self.runs and now_ms >= self._quiet_until_ms:
            self._turn(self._quiet_until_ms, runs=True)

    def was_disturbed(self, from_ms: int, to_ms: int) -> bool:
        at = bisect_right(self.disturbances, from_ms)
        return at < len(self.disturbances) and self.disturbances[at] <= to_ms
