"""Object stores: the port that all code goes through, and one adapter for each kind of store.

Promises: create-if-absent is atomic, or the store is refused at the first topic (`probe.py`); a reply that was lost is
UNKNOWN and never a guess; every failure is one of the errors in `errors.py`, which name the object and hold no secret.
`port.py` has the requests that protocol code awaits, `driver.py` answers them from a real store.
"""

if __name__ != "lithify.store":
    raise ImportError("import lithify.store, not store: a second copy of its classes would not match the first")
