"""When Spark is worth its start."""

from lithify.work.java import find_java

__all__ = ["ON_SPARK_FROM_BYTES", "spark_pays"]

ON_SPARK_FROM_BYTES = 1 << 30  # below, one process is done before Spark's workers have begun


def spark_pays(size: int) -> bool:
    """Whether a Spark that this process starts does work on so many bytes, and can be started here."""
    return size >= ON_SPARK_FROM_BYTES and find_java() is not None
