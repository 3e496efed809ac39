"""HTTP: the same operations as `lithify.Admin`, events, metrics and the dashboard (docs/rfcs/0018).

Promises: without a token nothing is served beyond loopback; what a page of another origin sends is refused; no answer
holds a secret, and a record's value only where it was asked for by who may.
"""

if __name__ != "lithify.admin.http":
    raise ImportError("import lithify.admin.http: a second copy of its classes would not match the first")
