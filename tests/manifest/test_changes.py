"""What simulated histories rarely hold of the events of manifests (docs/rfcs/0015): the rest is added up there, by
tests/sim/followed.py."""

from msgspec.structs import replace

from lithify.manifest.changes import changes_of_manifest
from lithify.manifest.commit import Next
from lithify.manifest.consumers import CommitPosition, ForgetConsumer
from lithify.manifest.events import ConsumerCommitted, ConsumerForgotten, ProducerForgotten, RetentionAltered
from lithify.manifest.floor import SetBounds
from lithify.manifest.model import Manifest, ProducerEntry, Retention
from tests.protocol.scene import FIRST

AT = {"topic": FIRST.topic, "partition": FIRST.partition, "manifest": 8, "at_ms": 5}
HEAD = replace(FIRST, id=7, next_offset=9)


def following(head: Manifest, edit: object) -> Manifest:
    verdict = edit.apply(head, 8, 5)  # type: ignore[attr-defined]
    assert isinstance(verdict, Next)
    return replace(verdict.value, id=8, committed_at_ms=5)


def test_a_consumer_that_commits_and_one_that_is_forgotten() -> None:
    committed = following(HEAD, CommitPosition("billing", 3, 0, "i"))
    assert changes_of_manifest(HEAD, committed) == (ConsumerCommitted(name="billing", offset=3, **AT),)
    forgotten = following(replace(committed, id=7), ForgetConsumer("billing"))
    assert changes_of_manifest(committed, forgotten) == (ConsumerForgotten(name="billing", **AT),)


def test_a_producer_that_is_forgotten() -> None:
    known = replace(HEAD, producers=(ProducerEntry(id="p", epoch=3, touched_at=3),))
    left = replace(HEAD, id=8, committed_at_ms=5)
    assert changes_of_manifest(known, left) == (ProducerForgotten(id="p", **AT),)


def test_other_bounds() -> None:
    bounds = Retention(ms=1_000)
    altered = following(HEAD, SetBounds(bounds, 2, Retention()))
    assert changes_of_manifest(HEAD, altered) == (RetentionAltered(retention=bounds, config_at=2, **AT),)


def test_what_changes_nothing_has_no_event() -> None:
    assert changes_of_manifest(HEAD, replace(HEAD, id=8, nonce="another")) == ()
