"""Object stores: the port, its requests, the blocking driver, and one file per kind of store."""

if __name__ != "lithify.store":
    raise ImportError("import lithify.store, not store: a second copy of its classes would not match the first")
