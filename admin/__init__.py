"""Operating lithify: the command line, and what the admin API answers."""

if __name__ != "lithify.admin":
    raise ImportError("import lithify.admin, not admin: a second copy of its classes would not match the first")
