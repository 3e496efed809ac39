"""Sabotages of the rules about data (R1-R6)."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_DATA"]

OF_DATA = (
    Sabotage(
        "the lowest offset wins",
        "R1",
        "segment/rules.py",
        "if rules.drop_superseded and superseded:",
        "if rules.drop_superseded and not superseded:",
    ),
    Sabotage(
        "offsets are counted anew",
        "R2",
        "manifest/appends.py",
        "base = head.next_offset\n",
        "base = sum(s.rows for s in head.segments())\n",
    ),
    Sabotage(
        "retention comes early",
        "R3",
        "manifest/retention.py",
        "by_time = 0 <= retention.ms < now_ms - bucket.max_timestamp_ms",
        "by_time = 0 <= retention.ms < 2 * (now_ms - bucket.max_timestamp_ms)",
    ),
    Sabotage(
        "a merge does not store the floor",
        "R3",
        "manifest/compactions.py",
        "floor = max(self.floor, floor_at(head, now_ms))",
        "floor = max(self.floor, head.log_start_offset)",
    ),
    Sabotage(
        "a bucket's bytes are divided by rows",
        "R3",
        "manifest/compactions.py",
        "return time_index.weigh(head.time_index, self.sizes, made_bytes)",
        "rows = sum(b.rows for b in head.time_index)\n            "
        "return tuple(replace(b, bytes=min(b.bytes, made_bytes * b.rows // rows)) for b in head.time_index)",
    ),
    Sabotage(
        "what a merge drops still has bytes",
        "R3",
        "manifest/time_index.py",
        "bytes=b.bytes + b.bytes * (stays + goes) // -r + part",
        "bytes=b.bytes + b.bytes * stays // -r + part",
    ),
    Sabotage(
        "a merge that nobody counted changes no bytes",
        "R3",
        "manifest/time_index.py",
        "if at in reached else b for at, b in enumerate(index))",
        "if at in () else b for at, b in enumerate(index))",
    ),
    Sabotage(
        "joined buckets take the floor back",
        "R3",
        "manifest/appends.py",
        "floor = floor_at(head, now_ms)\n    return",
        "floor = head.log_start_offset\n    return",
    ),
    Sabotage(
        "a commit uses the bounds from when its job began",
        "R3",
        "compactor/attempt.py",
        "            floor=current.plan.rules.floor,",
        """            floor=max(
                current.plan.rules.floor,
                (r := __import__("lithify.manifest.retention").manifest.retention).log_start(
                    (await self.files.manifest.refresh()).value, r.retention_of(self.config), await Now()
                ),
            ),""",
        focus="bounds",
    ),
    Sabotage(
        "a plan goes by the bounds of the configuration",
        "R3",
        "compactor/plan.py",
        "floor=floor_at(manifest, now_ms),",
        """floor=(r := __import__("lithify.manifest.retention").manifest.retention).log_start(
            manifest, r.retention_of(config), now_ms
        ),""",
        focus="bounds",
    ),
    Sabotage(
        "new bounds discard the floor reached under the old ones",
        "R3",
        "manifest/floor.py",
        "        floor = floor_at(head, now_ms)\n        index",
        "        floor = head.log_start_offset\n        index",
    ),
    Sabotage(
        "an earlier alter undoes a later one",
        "R3",
        "manifest/floor.py",
        "if self.config_at <= head.config_at:",
        "if self.config_at == head.config_at:",
    ),
    Sabotage(
        "an alter stops at the configuration",
        "R3",
        "manifest/catalog.py",
        "[0 if KEEPING_KEYS & changes.keys() else before.partitions :]",
        "[before.partitions :]",
    ),
    Sabotage(
        "a drop takes what reaches above the floor",
        "R3",
        "manifest/floor.py",
        "if s.max_offset < floor and",
        "if s.min_offset < floor and",
    ),
    Sabotage(
        "tombstones above the coverage are stamped",
        "R4",
        "segment/rules.py",
        "and horizon_ms is None and offset < rules.coverage_offset:",
        "and horizon_ms is None:",
    ),
    Sabotage(
        "a plan is named at one reading of the clock, and drops at another",
        "R4",
        "compactor/plan.py",
        """    old_enough = _old_enough(config, chosen, now_ms)
    clean = proposal.kind == "clean" and config.compacted and old_enough
""",
        """    old_enough = _old_enough(config, chosen, now_ms - 2_000)
    clean = proposal.kind == "clean" and config.compacted
""",
    ),
    Sabotage(
        "a horizon comes early",
        "R4",
        "compactor/plan.py",
        "return min(now_ms + config.delete_retention_ms,",
        "return min(now_ms + config.delete_retention_ms // 2,",
    ),
    Sabotage(
        "the young are merged away",
        "R4",
        "manifest/ages.py",
        "return now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else LONG_MAX",
        "return now_ms - config.min_compaction_lag_ms // 4 if config.min_compaction_lag_ms else LONG_MAX",
    ),
    Sabotage(
        "a tier also stamps horizons",
        "R4",
        "compactor/plan.py",
        "stamp_horizon_ms=_horizon_ms(config, now_ms) if clean else None,",
        "stamp_horizon_ms=_horizon_ms(config, now_ms) if config.compacted else None,",
    ),
    Sabotage(
        "an unstamped tombstone expires",
        "R4",
        "segment/rules.py",
        "if tombstone and horizon_ms is not None and horizon_ms <= rules.clock_ms:",
        "if tombstone and (horizon_ms or 0) <= rules.clock_ms:",
    ),
    Sabotage(
        "outputs are never cut",
        "R5",
        "compactor/plan.py",
        "output_bytes=config.output_bytes,",
        "output_bytes=2**40,",
    ),
    Sabotage(
        "a bound is cut and not rounded up",
        "R5",
        "segment/extent.py",
        "return smallest[:KEY_BOUND_BYTES], rounded or None",
        "return smallest[:KEY_BOUND_BYTES], largest[:KEY_BOUND_BYTES]",
    ),
    Sabotage(
        "a rounded bound is taken for a key",
        "R5",
        "manifest/run_order.py",
        "return _cut_of(upper) <= lower",
        "return upper is None or upper < lower",
    ),
    Sabotage(
        "a full store has no room for the end of planning",
        "R3",
        "compactor/job_edits.py",
        "    frees = True  # once for each mark\n",
        "    frees = False\n",
    ),
    Sabotage(
        "a full store has no room for a drop",
        "R3",
        "manifest/floor.py",
        "    repeatable = True  # a segment retires once\n    frees = True",
        "    repeatable = True  # a segment retires once\n    frees = False",
    ),
    Sabotage(
        "a damaged source is tried again",
        "R6",
        "compactor/attempt.py",
        "if failure.category.damage:",
        'if failure.category == "missing":',
    ),
    Sabotage(
        "one damaged reply is a damaged object",
        "R6",
        "compactor/damage.py",
        "if not await look(keys, (suspect,), show_life, whole=True):",
        "if not suspect:",
    ),
    Sabotage(
        "a job goes on by rules that are no longer in force",
        "P9",
        "compactor/altered.py",
        "    drops = rules.drop_superseded or rules.drop_keyless\n",
        "    return None\n    drops = rules.drop_superseded or rules.drop_keyless\n",
        focus="bounds",
    ),
    Sabotage(
        "a range that is done again is counted again",
        "R3",
        "manifest/jobs.py",
        "(_telling(d, _Sums()) if d.index in job.counted else d for d in fresh)",
        "fresh",
    ),
    Sabotage(
        "the sums are lost with the range that carries them",
        "R3",
        "manifest/jobs.py",
        "done=_carried(left, _sums(filter(_by_size, job.done)))",
        "done=_carried(left, _sums(filter(_by_size, left)))",
    ),
    Sabotage(
        "a run does not record how far down it reaches",
        "R4",
        "manifest/compactions.py",
        "replace(self.run, reaches_to=_reach(head, held), segments=made)",
        "replace(self.run, reaches_to=min(s.min_offset for s in made), segments=made)",
        focus="",
    ),
    Sabotage(
        "a part of what was cleaned is the compacted state",
        "R4",
        "manifest/compacted.py",
        "any(other.reaches_to < as_of for other in runs)",
        "any(other.reaches_to < 0 for other in runs)",
        focus="",
    ),
)
