"""Compaction of a partition: what is due, and doing it exactly once, whatever is interrupted.

Words
-----
- *segment*: an immutable Parquet object. Every append makes one: an *L0 segment*.
- *run*: segments in key order that do not overlap. Every compaction merges some runs and segments into one run.
- *debt*: work that a partition owes, by name: `dirty` (superseded records), `overdue` (a record is older than
  max.compaction.lag.ms), `l0`, `runs`, `l0-pressure` (appends are slowed down), `floor` (expired segments) and others.
  `manifest/debt.py` computes all of them from the manifest, the configuration and the time.
- *job*: one compaction. A *tier* merges and keeps every record that readers may need, a *clean* also drops superseded
  records and expired tombstones. A job that a person submits is a *request* until a compactor admits it.
- *plan*: what a job was admitted with: its sources, its rules and its key ranges. It never changes (P9).
- *range*, *task*: a part of the key space, of about one output's size. A task merges one range; an engine runs tasks.
- *attempt*: one start of work on a job. A job has as many as it takes; each keeps what earlier ones recorded (P12).
- *epoch*, *claim*: a compactor owns a partition by a number in the manifest, its epoch. The next claim takes a higher
  one, and then all writes of the former owner are refused: it is *fenced* (P5).
- *lease*: 30 seconds (`policy.LEASE_MS`). An owner at work keeps its partition as long as it writes within a lease; a
  standby also gives an idle owner a lease to begin what is due (`standby.py`, P5).
- *step*: what a coordinator does at a time: at most one job, or one edit. *Turn*: a step, as the scheduler counts it.
- *standby*: a compactor that leaves a partition alone because another one owns it.

From debt to done
-----------------
1. `scheduler.py` looks at every partition on an interval; `turns.py` ranks those that want something.
2. `served.py` gives the first one a turn: one step of its `coordinator.py`.
3. `policy.decide` chooses what comes next, from manifest, jobs, configuration and time. Nothing due: the step ends.
4. Without an epoch the coordinator claims one: first in the manifest, then in `.compactor` (P5). If what is due is
   known before, `early.py` plans it and lets its tasks read meanwhile; the claim admits it (`claim_edits.py`).
5. `plan.py` takes the runs and segments that `manifest/debt.py` chose, or a request names, and leaves out what one
   merge cannot hold; `split.py` cuts key ranges where the bytes lie; `plan.freeze` writes the rules down. The edit
   `job_edits.Admit` puts the job into `.compactor`: from now on the job holds its sources (P8).
6. `attempt.py` verifies what earlier attempts recorded, and gives the other ranges to an engine as tasks.
7. Each output that lands is recorded in `.compactor` (`progress.py`, P11). A crash loses only unrecorded work.
8. All outputs are checked, the last ones beside their record. Then one commit of the manifest replaces the sources by
   the outputs (P13).
9. `.compactor` marks the job completed. The sources are garbage, which `gc/` removes after a grace period.
A failed attempt is repeated from step 6 after a pause; after ten without progress the job is given up for a day
(`failures.py` counts, `policy.py` gives up; P14).

Which file does what
--------------------
Pure decisions, without a clock or a store: `policy`, `plan`, `job_edits` and `claim_edits` (the edits of `.compactor`),
`altered`, `estimate`, `failures`, `needs`, `patience`, `relief`, `requested`, `retiring`, `room`, `standby`, `turns`,
`waves`.
The protocol, as coroutines: `coordinator` (claim, admit), `early` (what begins before that), `split` (key ranges),
`attempt` (work, commit), `progress` (record), `look` and `damage` (are segments whole?), `wishes` (stop, pause,
cancel).
The world: `compactor` (the public class), `scheduler`, `service`, `served`, `answers` (the store and the engine answer
a coordinator's requests), `verification`, `tally` and `info` (reports for people), `engine` and `engines/`. What
travels to Spark's workers, and how, is `lithify.work`.
"""

if __name__ != "lithify.compactor":
    raise ImportError("import lithify.compactor, not compactor: a second copy of its classes would not match the first")
