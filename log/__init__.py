"""The client library. `lithify.open` returns a `Warehouse`, which opens a `Topic`, which opens a `Partition`: append,
read, follow, pin.

Promises: an acknowledged append is in every later read. A failed append says whether it may have happened, with a token
to find out later (`CommitUnknown`). A snapshot shows one manifest, whatever is compacted meanwhile. A consumer's
position is stored only after it was given the records before that position (docs/rfcs/0009).

- The face: `warehouse`, `topic`, `partition`, `snapshot`, `topic_snapshot`.
- Appending: `intake` checks records (`frames` and `tables` those of other libraries), `append` is the protocol, and
  `appending` with `commit_queue` shares commits among threads (docs/rfcs/0024). `producer*` and `delivering` batch,
  number and repeat; `upload` is an append that many processes write.
- Reading: `held` opens and pins a manifest, `follow` goes on to later ones, `point_reads` and `recent` get single keys,
  `planning` and `read_task` cut a snapshot for workers, `positions_in_log` finds where a time begins.
- Consumers: `consumer` and `topic_consumer`, with `positions` and `opening` for what the manifest stores of them.
"""

if __name__ != "lithify.log":
    raise ImportError("import lithify.log, not log: a second copy of its classes would not match the first")
