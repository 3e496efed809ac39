"""A world that remembers the chain of its partition's manifests."""

from dataclasses import dataclass, field

from lithify.manifest.codec import decode
from lithify.manifest.model import Manifest
from lithify.store.port import Outcome
from tests.interleave import World
from tests.protocol.scene import KEYS

__all__ = ["Recording"]


@dataclass
class Recording(World):
    """Remembers the first body of each manifest number: those, and no later ones, are the chain."""

    chain: dict[int, Manifest] = field(default_factory=dict)

    def _store_if_absent(self, key: str, body: bytes) -> Outcome:
        stored = super()._store_if_absent(key, body)
        number = KEYS.manifest.number(key)
        if stored is Outcome.CREATED and number is not None and number not in self.chain:
            self.chain[number] = decode(Manifest, body, key, number)
        return stored
