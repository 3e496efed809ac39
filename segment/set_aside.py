"""Objects that stay are set aside in Python workers of Spark's, which look for garbage after every task.

PySpark's daemon lets its workers call `gc.collect()` after each task. That looks at every object of PySpark, pyarrow
and lithify, finds nothing, and takes 60 ms of CPU: on two cores a quarter of a second for a query of eight tasks.
`gc.freeze()` takes objects that are there out of such looks; those that nothing refers to any more still go at once.
"""

import functools
import gc
import sys

__all__ = ["set_aside"]


def set_aside() -> None:
    """Call at the end of a task. Once in a worker that PySpark's daemon forked, it sets aside what is there by then:
    the modules, mostly. Elsewhere it does nothing, because elsewhere the process is somebody else's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        _once()


@functools.cache
def _once() -> None:
    gc.collect()  # garbage that is there would stay
    gc.freeze()
