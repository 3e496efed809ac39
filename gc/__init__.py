"""Garbage collection: what nothing names any more is deleted, after a grace period, by any number of collectors.

Promises: no live, pinned or recorded object is ever deleted, whatever is read late or twice (P16-P19). A manifest stays
readable for the grace period after it was superseded. What a killed process left is found by a sweep, which lists.

`collect.py` has both passes, `unpinned.py` what checkpoints leave behind, `lives.py` topics that were deleted and made
anew, `collector.py` the loop over all partitions.
"""

if __name__ != "lithify.gc":
    raise ImportError("import lithify.gc, not gc: a second copy of its classes would not match the first")
