"""The Parquet segment: its schema, writing, reading, verifying, and the merge of many into one run.

Promises: what is written can be read, as every output is decoded before it is recorded; a damaged byte is an error and
never a record (`verify.py`); a merge keeps the order of keys and of the offsets of one key, and holds one row group of
each source in memory (R1-R5). `merge` and `rules` decide which record stays; `execute.py` is a whole task.
"""

if __name__ != "lithify.segment":
    raise ImportError("import lithify.segment, not segment: a second copy of its classes would not match the first")
