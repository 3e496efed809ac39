"""A store in which one partition does not answer."""

import threading

from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Object


class Hanging(MemoryStore):
    """Partition 2 does not answer until `go`; nothing does while it is `away`."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.asked = threading.Event(), threading.Event()
        self.go.set()
        self.away = False

    def folders(self, prefix: str) -> list[str]:
        if self.away:
            raise Unavailable("away")
        return super().folders(prefix)

    def get(self, key: str) -> Object | None:
        if "/00002/" in key:
            self.asked.set()
            self.go.wait()
        return super().get(key)
