"""Garbage: what is reachable (pure), and the sweep."""

if __name__ != "lithify.gc":
    raise ImportError("import lithify.gc, not gc: a second copy of its classes would not match the first")
