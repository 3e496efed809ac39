"""Parquet segments: schema, writing, reading, verifying, and the merge of many into one run.

Promises: every output is decoded before it is recorded, so what is written can be read. A damaged byte is an error,
never a record (`verify.py`). A merge keeps the order of keys and of each key's offsets, and holds one row group of each
source in memory (R1-R5). `merge` and `rules` decide which record stays; `rules` has each rule twice,
for a block of rows (the product) and for one record (the model of tests). `execute.py` is a whole task.

A partition is read by its runs and L0 segments, here or in a worker: `scan.py` gives the latest record of each key,
`offset_order.py` every record, `stayed.py` leaves out what keys left behind when the topic grew. `Bounds` say of what
keys and offsets; only segments and row groups that may hold some of them are read. `ahead.py` has the next fetches of a
far store under way meanwhile (docs/rfcs/0028).

Single keys are looked up by `points.py`, one look for each segment that may hold the key; `parts.py` fetches and caches
what looks need, `point_parts.py` decodes it, `stripes.py` the rows of a few pages (docs/rfcs/0025).
"""

if __name__ != "lithify.segment":
    raise ImportError("import lithify.segment, not segment: a second copy of its classes would not match the first")
