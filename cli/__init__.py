"""
The command line: a file for each command, and what they share.

Promises: every command answers `--json` with the structs of the Python API; exit codes follow the kinds of error
(docs/cli.md); no secret and no record is printed unless asked for. A command imports what it needs when it runs, so
that `lithify --help` is fast.

`main.py` is the outermost command, `invocation.py` what each command is given, `settings.py` every flag and variable,
`output.py` how answers are printed, `failures.py` how errors are told. `records/` reads and writes records, `demo/` is
`lithify demo`.
"""

if __name__ != "lithify.cli":
    raise ImportError("import lithify.cli, not cli: a second copy of its classes would not match the first")
