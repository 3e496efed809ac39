"""For tests: an atomic S3 server on loopback, and a pytest plugin."""

if __name__ != "lithify.testing":
    raise ImportError("import lithify.testing, not testing: a second copy of its classes would not match the first")
