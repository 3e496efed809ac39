"""The truth of a partition: one file, the newest manifest, names every live segment. Its model, the edits that make the
next one from the last, the invariants that every edit keeps, and how it is committed.

Promises: a file is written once, under the next number, by create-if-absent, so of two writers one wins and the other
sees it (P1-P3). An edit is pure: the same head, number and time give the same next manifest, and a repeated commit
finds that it has happened already (P4). Whatever would break an invariant is not written (`invariants.py`).

Begin with `model.py` (what is stored), `commit.py` (how a number is won) and an edit, such as `claims.py`. There is
a file of edits for each subject: `lifetime`, `claims`, `appends`, `producers`, `transactions`, `consumers`, `floor`,
`compactions`, `pins`, `quarantine`; those of `.compactor` files are `compactor/job_edits.py`. `debt.py` tells what a
partition owes; `changes.py` what a file says that the one before it did not. Every field is explained in
docs/formats.md.
"""

if __name__ != "lithify.manifest":
    raise ImportError("import lithify.manifest, not manifest: a second copy of its classes would not match the first")
