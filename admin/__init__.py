"""
Operating lithify from Python: the `Admin` API (submit, status, cancel, explain, lift a quarantine), the verifier, and
the loop of the service. The command line over it is `cli/`.

Promises: asking costs no more requests than it says, and writes nothing; whoever asks needs no compactor to be running.
"""

if __name__ != "lithify.admin":
    raise ImportError("import lithify.admin, not admin: a second copy of its classes would not match the first")
