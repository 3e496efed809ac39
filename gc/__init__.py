"""Garbage collection: deletes what nothing refers to any more, after a grace period. Any number of collectors may run.

Promises: no live, pinned or recorded object is ever deleted, however late or often something is read (P16-P19). A
manifest stays readable for the grace period after it was superseded. What a killed process left behind is found by a
sweep, which lists all objects.

`collect.py` has both kinds of pass, `reachable.py` decides what may go, `unpinned.py` deals with what checkpoints leave
behind, `lives.py` with topics that were deleted and created again; `collector.py` is the loop over all partitions.
"""

if __name__ != "lithify.gc":
    raise ImportError("import lithify.gc, not gc: a second copy of its classes would not match the first")
