"""
The command line: one file per command, and what they share.

Promises: every command answers `--json` with the structs of the Python API; exit codes are those of the errors
(`store/errors.py`, docs/cli.md), and `failures.py` adds those of signals and of reports on many partitions; no secret
is ever printed, and records only on request. A command imports its modules when it runs, so that `lithify --help` is
fast.

`main.py` is the outermost command, `invocation.py` the context of each command, `settings.py` has every flag and
variable, `output.py` prints answers, `failures.py` reports errors. `records/` reads and writes records, `demo/` is
`lithify demo`.
"""

if __name__ != "lithify.cli":
    raise ImportError("import lithify.cli, not cli: a second copy of its classes would not match the first")
