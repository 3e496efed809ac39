"""
Operating a warehouse. `client.py` has the table of all operations (`Admin`): topics, checkpoints, consumers,
transactions, compactions, manifests, a key's history, garbage, health and verification. Each subject is a file of
functions, with the structs that it answers. Beside it is the service's loop (`daemon.py`, `interruption.py`). The
command line on top is `cli/`, the first client of `Admin`.

Promises:
- An answer is a struct with closed types, so that JSON Schema says all that may be in it.
- To ask writes nothing and needs no running compactor. A question asked again about a partition that has not changed
  costs two GETs for each chain read, and one for the topic. `health` and `verify` read the newest files anyway.
- What is asked of several partitions continues past those that fail, and names them. If all fail, it raises.
- `Admin` is thread-safe. Operations on one partition take turns.
"""

if __name__ != "lithify.admin":
    raise ImportError("import lithify.admin, not admin: a second copy of its classes would not match the first")
