"""Object stores: the port that all code uses, and one adapter for each kind of store.

Promises: create-if-absent is atomic, or the store is refused when the first topic is created (`probe.py`). A lost reply
is UNKNOWN, never a guess. Every failure is one of the errors in `errors.py`, which name the object and hold no secret;
there each kind has its exit code, its HTTP status, and whether to repeat.
`port.py` has the requests that protocol code awaits; `driver.py` answers them from a real store.

Several things at once, by what does them: `in_step.py` for protocol coroutines, `side_by_side.py` for the requests of
one call, `many.py` for blocking work on many partitions, `fetching.py` for requests whose answers are wanted later.
"""

if __name__ != "lithify.store":
    raise ImportError("import lithify.store, not store: a second copy of its classes would not match the first")
