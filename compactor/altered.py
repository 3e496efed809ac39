"""May a job still do what its plan says? The topic may have been altered since its admission (P9). Pure."""

from collections.abc import Iterable

from lithify.manifest.ages import latest_cleanable_ms
from lithify.manifest.config import LONG_MAX, TopicConfig
from lithify.manifest.homes import HERE, told
from lithify.manifest.jobs import Job, MergeRules
from lithify.manifest.model import SegmentRef
from lithify.store.home_names import same_home

__all__ = ["forbidden", "not_its_home", "outdated"]


def outdated(job: Job, sources: Iterable[SegmentRef], config: TopicConfig, now_ms: int) -> str | None:
    """Why `config`, the one in force, does not let `job` do what its plan says with `sources`. None: it does.
    Requires: it has a plan."""
    if job.relocates:
        return not_its_home(job.home, config)
    assert job.plan is not None
    return forbidden(job.plan.rules, sources, config, now_ms)


def not_its_home(home: str, config: TopicConfig) -> str | None:
    """Why nothing may move to `home` any more. None: it is the topic's cold home, or the warehouse.

    SUBTLE! 1. A compactor that moves segments is stopped. 2. An operator gives the home up: removes cold.location,
    recalls what is there, and wipes it. 3. The compactor goes on, and moves segments there that the next wipe would
    destroy. Test: tests/e2e/test_homes_given_up.py
    """
    if same_home(home, HERE) or (config.cold_home and same_home(home, config.cold_home)):
        return None
    return f"{told(home)} is not its cold home any more"


def forbidden(rules: MergeRules, sources: Iterable[SegmentRef], config: TopicConfig, now_ms: int) -> str | None:
    """Why `config`, the one in force, keeps something that a merge of `sources` by the frozen `rules` would drop, now
    or once its horizons have passed. None: it keeps no more than the rules do.

    The floor needs no check: readers had already lost sight of those records, whatever bounds hold today (R3). A
    tombstone that a clean stamped expires by its stamp, whatever delete.retention.ms says today (R4).
    """
    drops = rules.drop_superseded or rules.drop_keyless
    if (drops or rules.stamp_horizon_ms is not None) and not config.compacted:
        return "cleanup.policy keeps every record now"
    now_ms = max(now_ms, rules.clock_ms)  # a clock that stepped back makes nothing younger than it was
    held = tuple(sources)
    if drops and any(ref.max_timestamp_ms > latest_cleanable_ms(config, now_ms) for ref in held):
        return "some of its records are younger than min.compaction.lag.ms is now"
    latest_ms = min(rules.clock_ms + config.delete_retention_ms, LONG_MAX - 1)
    if rules.stamp_horizon_ms is not None and rules.stamp_horizon_ms < latest_ms and any(r.tombstones for r in held):
        return "delete.retention.ms keeps its tombstones longer now"
    return None
