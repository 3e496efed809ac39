"""A worker that opens a store by the spec on its standard input and uses it; prints what it did, and each address that
anything in it wanted to reach. Addresses named as arguments are let through, all others are refused at the socket."""

import json
import sys
from typing import Any

allowed = set(sys.argv[1:])
wanted: list[str] = []


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        return
    # A name is refused before it is looked up.
    address = arguments[:2] if event == "socket.getaddrinfo" else arguments[1]
    where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
    wanted.append(where)
    if where not in allowed:
        raise ConnectionRefusedError(f"{where} is not the warehouse")


sys.addaudithook(guard)

import msgspec  # noqa: E402 - nothing is imported unguarded

from lithify.store.errors import LithifyError  # noqa: E402
from lithify.store.opening import open_spec  # noqa: E402
from lithify.store.port import StoreSpec  # noqa: E402

said: list[str] = []
try:
    store = open_spec(msgspec.json.decode(sys.stdin.buffer.read(), type=StoreSpec))
    said.append(getattr(store.inner, "endpoint_url", ""))
    said.append(store.create("worker/k", b"of a worker").value)
    found = store.get("worker/k")
    said.append(found.body.decode() if found else "nothing")
    output = store.output("worker/streamed")
    output.write(b"x" * 9_000_000)
    output.close()
    head = store.head("worker/streamed")
    said += [str(head.size) if head else "nothing", store.read("worker/streamed", 8_999_999, 1).decode()]
    said.append(str(len(store.list("worker/").objects)))
    store.delete(["worker/k", "worker/streamed"])
    said.append(str(store.now() > 0))
except LithifyError as error:
    said.append(f"{type(error).__name__}: {error}")
print(json.dumps({"said": said, "wanted": sorted(set(wanted))}))
