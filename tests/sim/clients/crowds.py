"""Threads of one process that append at the same time, through one handle or several (docs/rfcs/0024). Now and then one
of them is interrupted (Ctrl-C) before or after one of its requests, and the others go on. They have dice of their own,
so that histories without them are as they were."""

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from greenlet import getcurrent

from lithify.store.port import Request
from tests.sim.clients.site import Site
from tests.sim.clients.threads import Thread
from tests.sim.clients.world import Process
from tests.sim.clients.writers import appends_one

__all__ = ["crowds_of"]

CROWDS_SHARE = 0.3
INTERRUPTED_SHARE = 0.2  # of threads
AT_A_REQUEST = 0.15
THREADS_MAX = 4

Main = Callable[[Process], None]


def crowds_of(site: Site, seed: str) -> dict[str, Main]:
    dice = random.Random(f"{seed}/crowds")
    if dice.random() >= CROWDS_SHARE:
        return {}
    return {"crowd": crowd(site, dice.choice((8, 16, 32)))}


def crowd(site: Site, appends: int) -> Main:
    left = appends

    def main(process: Process) -> None:
        nonlocal left
        say = process.actor.say
        while left > 0:
            site.rest(process)
            with site.outages():
                shared = site.open(process)
                count = say.randint(2, THREADS_MAX)
                topics = [shared if say.random() < 0.7 else site.open(process) for _ in range(count)]
                left -= count
                name = f"{process.actor.name}.{left}"
                sends = [appends_one(site, process, topic, f"{name}.{n}") for n, topic in enumerate(topics)]
                threads = [Thread(_in_peace(site, process, send), "appending") for send in sends]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                site.world.counts["crowd appended"] += 1

    return main


def _in_peace(site: Site, process: Process, send: Callable[[], None]) -> Callable[[], None]:
    doomed = process.actor.say.random() < INTERRUPTED_SHARE

    def run() -> None:
        try:
            with site.outages("thread of a crowd met"), Interrupted(process) if doomed else nullcontext():
                send()
        except KeyboardInterrupt:
            site.world.counts["thread of a crowd interrupted"] += 1

    return run


class Interrupted:
    """Whoever is within is interrupted at one of its requests: before it is asked, or after it was answered."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __enter__(self) -> None:
        self._me, self._plain = getcurrent(), self._process.driver.answer
        self._process.driver.answer = self._answer

    def __exit__(self, *_: object) -> None:
        self._me = None

    def _answer(self, request: Request[Any]) -> Any:
        if self._me is None or getcurrent() is not self._me:
            return self._plain(request)
        luck = self._process.actor.luck.random()
        if luck < AT_A_REQUEST / 2:
            raise KeyboardInterrupt
        reply = self._plain(request)
        if luck < AT_A_REQUEST:
            raise KeyboardInterrupt
        return reply
