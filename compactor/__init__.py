"""Compaction: pure policy, planning and job states; the compaction protocol; engines; the daemon."""

if __name__ != "lithify.compactor":
    raise ImportError("import lithify.compactor, not compactor: a second copy of its classes would not match the first")
