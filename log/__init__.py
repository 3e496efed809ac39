"""What clients do: warehouse, topic, partition, producer, reader, snapshot."""

if __name__ != "lithify.log":
    raise ImportError("import lithify.log, not log: a second copy of its classes would not match the first")
