"""
Operating lithify from Python: the `Admin` API (submit, status, cancel, explain, lift a quarantine), the verifier, and
the service's loop. The command line on top of it is `cli/`.

Promises: reading a status takes only the requests documented, writes nothing, and needs no running compactor.
"""

if __name__ != "lithify.admin":
    raise ImportError("import lithify.admin, not admin: a second copy of its classes would not match the first")
