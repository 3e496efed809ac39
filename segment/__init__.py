"""The Parquet segment: schema, writing, reading, verifying, and the merge kernel."""

if __name__ != "lithify.segment":
    raise ImportError("import lithify.segment, not segment: a second copy of its classes would not match the first")
