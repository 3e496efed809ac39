"""The client library. `lithify.open` returns a `Warehouse`, which opens a `Topic`, which opens a `Partition`: append,
read, follow, pin.

Promises: an acknowledged append is in every later read. A failed append says whether it may have happened, with a token
to find out later (`CommitUnknown`). A snapshot shows one manifest, whatever is compacted meanwhile. A consumer's
position is stored only after it was given the records before that position (docs/rfcs/0009).
"""

if __name__ != "lithify.log":
    raise ImportError("import lithify.log, not log: a second copy of its classes would not match the first")
