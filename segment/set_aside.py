"""Objects that stay are set aside in Python workers of Spark's, which look for garbage after every task.

PySpark's daemon lets its workers call `gc.collect()` after each task. That looks at every object of PySpark, pyarrow
and lithify, finds nothing, and takes 60 ms of CPU: on two cores a quarter of a second for a query of eight tasks.
`gc.freeze()` takes objects that are there out of such looks; those that nothing refers to any more still go at once.
"""

import gc
import sys

from lithify.store.driver import monotonic_ms

__all__ = ["set_aside"]

_AGAIN_MS = 60_000
_done_ms: list[int] = []  # when this worker last did it


def set_aside() -> None:
    """Call at the end of a task. In a worker that PySpark's daemon forked, it sets aside what is there by then: the
    modules, mostly. Elsewhere it does nothing, because elsewhere the process is somebody else's.

    SUBTLE! Not once and for all: 1. A user's function keeps a model in a global, with a reference to itself. 2. It is
    set aside. 3. The function replaces it, and it would stay until the worker ends. So it is looked at again, once a
    minute. Test: tests/segment/test_set_aside.py
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != "pyspark.daemon":
        return
    now_ms = monotonic_ms()
    if _done_ms and now_ms - _done_ms[-1] < _AGAIN_MS:
        return
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _done_ms[:] = [now_ms]
