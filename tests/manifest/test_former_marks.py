"""The marks of topics that are over do not add up: a sweep deletes those of which a later one says as much (P21)."""

import random

import pytest

from lithify.manifest.ended import Known, say_again, say_over
from lithify.manifest.keys import EndKeys, TopicKeys
from tests.interleave import World


def test_what_a_larger_mark_says_goes_with_the_next_sweep() -> None:
    """A name that is made and deleted every hour would else leave marks for ever, and each pass lists all of them."""
    world = World(0)
    world.objects[TopicKeys("t").config.key(1)] = b"x", 0
    for number in range(1, 12):
        world.alone(say_over("t", number))
        world.alone(say_again("t", number))
    world.alone(say_over("u", 3))
    world.alone(say_again("u", 2))
    keys = EndKeys("t")
    kept = {keys.over(11), keys.again(11), EndKeys("u").over(3), EndKeys("u").again(2)}
    before = world.alone(Known().topics())
    world.alone(Known().topics(anew=True, says=False))
    assert marks_of(world) > kept, "neither a pass nor a rehearsal deletes"
    world.alone(Known().topics(anew=True))
    assert marks_of(world) == kept
    assert world.alone(Known().topics()) == before


@pytest.mark.parametrize("seed", range(40))
def test_whatever_marks_are_swept_what_is_said_stays(seed: int) -> None:
    """Sweeps beside each other and beside who says more; and one that stops between any two requests."""
    world, dice = World(seed), random.Random(seed)
    most = {"over": 0, "again": 0}
    for _ in range(30):
        what, number = dice.choice(("over", "again")), dice.randrange(1, 20)
        most[what] = max(most[what], number)
        world.start("says", say_over("t", number) if what == "over" else say_again("t", number))
        for _ in range(dice.randrange(3)):
            world.start("sweeps", Known().topics(anew=True))
        for _ in range(dice.randrange(12)):
            live = [actor for actor in world.actors if actor.running]
            if live:
                actor = dice.choice(live)
                if actor.name == "sweeps" and dice.random() < 0.1:
                    world.crash(actor)
                else:
                    world.step(actor)
    world.run()
    assert [actor.failed for actor in world.actors if actor.failed] == []
    found = {what: max(n for _, n, w in map(parsed, marks_of(world)) if w == what) for what in most if most[what]}
    assert found == {what: number for what, number in most.items() if number}
    world.alone(Known().topics(anew=True))
    assert len(marks_of(world)) == len(found)


def marks_of(world: World) -> set[str]:
    return {key for key in world.objects if key.startswith(EndKeys.FOLDER)}


def parsed(key: str) -> tuple[str, int, str]:
    found = EndKeys.parse(key)
    assert found is not None
    return found
