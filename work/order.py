"""What travels to a worker and back: an order and its reply, both sealed as JSON, without rows or secrets."""

import functools
import importlib.metadata
import socket

import msgspec

from lithify.manifest.homes import where
from lithify.segment.check import CheckTask, Finding
from lithify.segment.task import JobTask, MoveTask, TaskFailure, TaskResult
from lithify.store.homes import HERE, Homes
from lithify.store.port import StoreSpec
from lithify.work.private_files import PrivateFiles

__all__ = [
    "Cancelled",
    "Checked",
    "Order",
    "Refused",
    "Reply",
    "Work",
    "installed_version",
    "seal",
    "sealed_reply",
    "specs_of",
    "unseal",
    "unsealed_order",
]

Work = JobTask | CheckTask
"""One task: what a worker can be told to do."""


class Stamp(msgspec.Struct, frozen=True):
    """The part of an order that every release can read."""

    version: str
    elsewhere: bool = False


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and how stores are opened there."""

    version: str  # of the driver's lithify
    work: Work
    homes: dict[str, StoreSpec]  # as in `Homes`
    stop_file: str | None = None  # where driver and worker share a machine
    elsewhere: bool = False  # the worker may run on another machine: its messages name that


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """A CheckTask was done."""

    findings: tuple[Finding, ...]


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """The worker was told to stop."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Nothing was done, and why."""

    refused: str  # under this name every release reads it


Reply = TaskResult | TaskFailure | Checked | Cancelled | Refused


class _Refusal(msgspec.Struct, frozen=True):
    """The part of a reply that every release can read; earlier ones had no tags."""

    refused: str = ""


# At import: msgspec prepares a type safely in one thread only.
_stamps = msgspec.json.Decoder(Stamp)
_orders = msgspec.json.Decoder(Order)
_refusals = msgspec.json.Decoder(_Refusal)
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


@functools.cache
def installed_version() -> str:
    """The version of lithify in this process."""
    try:
        return importlib.metadata.version("lithify")
    except importlib.metadata.PackageNotFoundError:
        return "without version (its wheel's metadata is missing)"


def specs_of(work: Work, homes: Homes, private: PrivateFiles | None) -> dict[str, StoreSpec]:
    """How workers open the stores that this work needs. `private`: for workers of this machine, which find explicit
    secrets in its files; None: workers elsewhere, which use their own credentials."""
    needed = {HERE: homes.here}
    target = {work.home} if isinstance(work, MoveTask) else set[str]()
    for home in target.union(where(work.keys, ref).home for ref in work.segments):
        if home in homes.names:  # otherwise the worker refuses the segment, by its name
            needed[home] = homes.store(home)
    return {home: store.spec() if private is None else private.spec(store) for home, store in needed.items()}


def seal(order: Order) -> str:
    return msgspec.json.encode(order).decode()


def unsealed_order(sealed: str) -> Order | Refused:
    """The order; refused if another release of lithify gave it."""
    stamp, here = _stamps.decode(sealed), installed_version()
    if stamp.version != here:
        worker = f"worker {socket.gethostname()}" if stamp.elsewhere else "worker"
        return Refused(f"{worker} runs lithify {here}, this is {stamp.version}: install the same wheel")
    return _orders.decode(sealed)


def sealed_reply(reply: Reply) -> str:
    return msgspec.json.encode(reply).decode()


def unseal(reply: str) -> Reply:
    refusal = _refusals.decode(reply)
    return Refused(refusal.refused) if refusal.refused else _replies.decode(reply)
