"""Operating lithify: the `Admin` API (submit, status, cancel, explain, lift a quarantine), the verifier, `doctor`, the
service's loop, and the command line over all of them.

Promises: every command answers `--json` with the structs of the Python API; exit codes follow the kinds of error
(docs/cli.md); no secret and no record is printed unless asked for; asking costs no more requests than it says.
"""

if __name__ != "lithify.admin":
    raise ImportError("import lithify.admin, not admin: a second copy of its classes would not match the first")
