"""Engines: `local` runs tasks in this process, `spark` as jobs of a Spark session."""
