"""Work that travels: orders to workers, their replies, and Spark, which carries both.

An order names what to do (a task of lithify.segment) and how stores are opened; both sides see JSON without rows or
secrets. `order.py` is what travels, `worker.py` runs where it arrives, `outcome.py` says how a task ended. `spark.py`
carries orders over a session (`spark_session`, `held_session`, `spark_jobs`, `java`). Workers of this machine get
secrets, and the order to stop, through files that only this user reads (`private_files`, `stop_file`).
"""

if __name__ != "lithify.work":
    raise ImportError("import lithify.work, not work: a second copy of its classes would not match the first")
