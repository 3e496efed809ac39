"""A sweep that takes its time: between what it reads jobs commit, and what it is about to read is let go."""

import contextlib
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from lithify.manifest.partition import PartitionFiles
from lithify.store.port import Get, Pause, Request
from tests.sim.cast import Actor
from tests.sim.site import Site

__all__ = ["dawdling"]

SLOWLY = 5  # how much more often it stands still
WAITS_SHARE, RESTS = 0.5, 20  # of what it waits before; so many rests at most
T = TypeVar("T")


async def dawdling(site: Site, actor: Actor, files: PartitionFiles, work: Coroutine[Request[Any], Any, T]) -> T:
    with _slowly(actor):
        return await _with_pauses(site, actor, files, work)


@contextlib.contextmanager
def _slowly(actor: Actor) -> Generator[None]:
    usual, actor.slowness = actor.slowness, max(actor.slowness, SLOWLY)
    try:
        yield
    finally:
        actor.slowness = usual


@types.coroutine
def _with_pauses(
    site: Site, actor: Actor, files: PartitionFiles, work: Coroutine[Request[Any], Any, T]
) -> Generator[Request[Any], Any, T]:
    reply, error = None, None
    with contextlib.closing(work):
        while True:
            try:
                request = work.send(reply) if error is None else work.throw(error)
            except StopIteration as ended:
                return ended.value
            reply, error = None, None
            if _waits(files, request) and actor.say.random() < WAITS_SHARE:
                yield Pause(int(actor.say.random() * RESTS * site.rest(actor)))
            try:
                reply = yield request
            except Exception as raised:  # noqa: BLE001 - whatever it is, it is the work's
                error = raised


def _waits(files: PartitionFiles, request: Request[Any]) -> bool:
    """Before it reads the jobs, and before an older manifest than the head, as one does for a checkpoint."""
    if type(request) is not Get or not files.keys.is_numbered(request.key):
        return False
    head = files.keys.manifest.key(files.manifest.seen.number)
    return request.key.startswith(files.keys.compactor.prefix) or files.keys.manifest.prefix < request.key < head
