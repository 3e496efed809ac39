"""The state of a partition is defined by one file: the newest manifest, which names every live segment. This package
has its model, the edits that make the next manifest from the last, the invariants that every edit keeps, and how it is
committed.

Promises: a file is written once, under the next number, by create-if-absent, so of two writers one wins and the other
sees it (P1-P3). Numbers at or below the boundary are dead, and never count again (P4). An edit is pure: the same head,
number and time give the same next manifest, and a repeated commit finds that it has happened already. An edit that
would break an invariant is not written (`invariants.py`).

Begin with `model.py` (what is stored), `commit.py` (how a number is won) and one edit, such as `claims.py`. Each
subject has a file of edits: `lifetime`, `claims`, `appends`, `uploads`, `producers`, `transactions`, `consumers`,
`floor`, `compactions`, `pins`, `quarantine`, and `catalog` for topics; those of `.compactor` files are in
`compactor/job_edits.py`. `debt.py` computes what work a partition owes and which runs it takes (docs/rfcs/0008),
`retention.py` the floor. `known.py` keeps what a process has read of partitions from question to question.
docs/formats.md explains every field.
"""

if __name__ != "lithify.manifest":
    raise ImportError("import lithify.manifest, not manifest: a second copy of its classes would not match the first")
