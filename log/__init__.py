"""What clients do: append, read, follow, pin. `lithify.open` gives a `Warehouse`, that a `Topic`, that a `Partition`.

Promises: an acknowledged append is in every later read; an append that failed says whether it may have happened, and a
token tells later (`CommitUnknown`); a snapshot shows one manifest, whatever is compacted meanwhile; the position of a
consumer is stored only after it was given the records before it (docs/rfcs/0009).
"""

if __name__ != "lithify.log":
    raise ImportError("import lithify.log, not log: a second copy of its classes would not match the first")
