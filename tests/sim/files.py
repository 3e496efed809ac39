"""Damage that comes over numbered files, and its end. Whoever decodes one is watched: what is damaged is refused, and
nothing else is."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from lithify.manifest import run_lists
from lithify.manifest.codec import decode
from lithify.manifest.keys import TopicKeys
from lithify.store.errors import Corrupt
from lithify.store.port import Pause
from tests.sim.actors import Life
from tests.sim.cast import Actor, Damaged, Violation
from tests.sim.site import TOPIC, Site

__all__ = ["file_operator", "restore_files", "watched"]

CHAINS = ("manifest", "manifest", "compactor", "boundary", "topic")
DIGITS = frozenset(byte for byte in range(256) if chr(byte).isdigit())


@contextmanager
def watched(site: Site) -> Generator[None]:
    """Within, an actor that meets a damaged file is told `Damaged`: any other Corrupt ends the history. The same bytes
    under the same key are decoded once: values are frozen, and a thousand steps read few files."""
    values: dict[tuple[str, bytes], Any] = {}

    def decoded(kind: Any, body: bytes, key: str, number: int) -> Any:
        if (key, body) not in values:
            values[key, body] = once(kind, body, key, number)
        return values[key, body]

    def once(kind: Any, body: bytes, key: str, number: int) -> Any:
        known = body in site.broken
        try:
            value = decode(kind, body, key, number)
        except Corrupt as error:
            if not known:
                raise Violation(f"{key} is refused, and nobody damaged it: {error}") from error
            site.world.counts["damaged file refused"] += 1
            raise Damaged(str(error)) from None
        if known:
            raise Violation(f"{key} is damaged, and is read as {value} (P2)")
        return value

    def listed(each: Any, body: bytes, key: str) -> Any:
        known = body in site.broken
        try:
            value = _listed(each, body, key)
        except Corrupt as error:
            if not known:
                raise Violation(f"{key} is refused, and nobody damaged it: {error}") from error
            site.world.counts["damaged run list refused"] += 1
            raise Damaged(str(error)) from None
        if known:
            raise Violation(f"{key} is damaged, and is read as {value} (P23)")
        return value

    _listed = run_lists._listed  # pyright: ignore[reportPrivateUsage]
    with patch("lithify.manifest.commit.decode", decoded), patch("lithify.manifest.run_lists._listed", listed):
        yield


def file_operator(site: Site) -> Life:
    """Damages the newest file of a chain, or one below, as bad disks and hands do; restores it after a while."""

    async def live(actor: Actor) -> None:
        while True:
            await Pause(4 * site.rest(actor))
            for _ in range(actor.say.choice((1, 1, 2))):
                _damage(site, actor.say)
            await Pause(int(actor.say.random() * 12) * site.rest(actor))
            restore_files(site)

    return live


def _damage(site: Site, say: random.Random) -> None:
    chain = say.choice(CHAINS)
    prefixes = [TopicKeys(TOPIC).config.prefix]
    if chain != "topic":
        prefixes = [getattr(truth.keys, chain).prefix for truth in site.oracle.truths.values()]
    there = sorted(key for key in site.world.objects if key.startswith(say.choice(prefixes)))
    if not there:
        return
    key = there[-1] if say.random() < 0.8 else say.choice(there)
    body, at_ms = site.world.objects[key]
    if key in site.damaged_files:
        return
    broken = _broken(body, say)
    site.damaged_files[key] = body
    site.broken.add(broken)
    site.world.objects[key] = (broken, at_ms)
    site.world.counts["damaged file"] += 1


def _broken(body: bytes, say: random.Random) -> bytes:
    """Cut, or with another digit somewhere: of the right types, and saying something else."""
    digits = [place for place, byte in enumerate(body[:-30]) if byte in DIGITS]
    if say.random() < 0.3 or not digits:
        return body[: say.randrange(len(body) - 1)]
    place = say.choice(digits)
    return body[:place] + b"%d" % ((body[place] - 48 + 1) % 10) + body[place + 1 :]


def restore_files(site: Site) -> None:
    """What was collected meanwhile stays away."""
    for key, body in site.damaged_files.items():
        if key in site.world.objects:
            site.world.objects[key] = (body, site.world.objects[key][1])
    site.damaged_files.clear()
