"""A store in memory of which a test says what fails, request by request."""

from collections.abc import Callable

from lithify.store.memory import MemoryStore
from lithify.store.port import Object, ObjectInfo, Outcome

__all__ = ["FailingStore", "FarFailingStore"]


class FailingStore(MemoryStore):
    """`before` is asked before each request, with its method's name and its key; what it raises is the reply. Where it
    answers with an outcome, that is the reply of a create: a lost reply's where `stores` says that it arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[str, str], Outcome | None] = lambda _request, _key: None
        self.stores = True

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        reply = self.before("create", key)
        if reply is None:
            return super().create(key, body, frees)
        if self.stores:
            super().create(key, body, frees)
        return reply

    def get(self, key: str) -> Object | None:
        self.before("get", key)
        return super().get(key)

    def head(self, key: str) -> ObjectInfo | None:
        self.before("head", key)
        return super().head(key)

    def put(self, key: str, body: bytes) -> None:
        self.before("put", key)
        super().put(key, body)

    def read(self, key: str, start: int, length: int) -> bytes:
        self.before("read", key)
        return super().read(key, start, length)


class FarFailingStore(FailingStore):
    """Its partitions are asked side by side, in a thread's turn."""

    @property
    def far(self) -> bool:
        return True
