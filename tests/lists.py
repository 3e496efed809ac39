"""Manifests as they are read: with what their run lists hold."""

from collections.abc import Mapping

from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest
from lithify.manifest.run_lists import RunLists
from lithify.store.port import Get, Object, Together

__all__ = ["whole"]


def whole(stored: Manifest, bodies: Mapping[str, bytes], near: Manifest | None = None) -> Manifest:
    """A manifest that was decoded. `bodies`: its run lists, by key. Raises PartMissing, Corrupt."""
    reading = RunLists(PartitionKeys(stored.topic, stored.topic_id, stored.partition)).whole(stored, near)

    def found(request: Get) -> Object | None:
        body = bodies.get(request.key)
        return None if body is None else Object(body, None)

    try:
        request = reading.send(None)
        while True:
            if isinstance(request, Together):
                request = reading.send(tuple(map(found, request.requests)))  # type: ignore[arg-type]
            else:
                assert isinstance(request, Get)
                request = reading.send(found(request))
    except StopIteration as ended:
        return ended.value
