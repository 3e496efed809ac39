"""The truth of a partition: model, pure edits and invariants, names of files, and the commit protocol."""

if __name__ != "lithify.manifest":
    raise ImportError("import lithify.manifest, not manifest: a second copy of its classes would not match the first")
