"""`lithify demo`: changes in, a compactor killed halfway, another that takes over, and a comparison."""

import os
import shlex
import shutil
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from lithify.cli.demo.changes import change_stream
from lithify.cli.demo.s3 import OwnS3
from lithify.cli.demo.screen import Screen
from lithify.cli.demo.story import TOPIC, Place, Story
from lithify.cli.invocation import Invocation, command
from lithify.cli.settings import option, setting
from lithify.log.warehouse import Warehouse
from lithify.log.warehouse import open as open_warehouse
from lithify.store.driver import monotonic_ms, new_id
from lithify.store.errors import InvalidRequest
from lithify.store.listing import objects
from lithify.store.port import DELETE_KEYS_MAX
from lithify.work.java import use_java
from lithify.work.spark_conf import parse_spark_conf

__all__ = ["demo"]

SEGMENTS = {"local": 40, "spark": 20}  # before compaction; on Spark each is a task, whose scheduling costs more
_NOT_FOR_OWN_S3 = ("AWS_PROFILE", setting("storage.option").variable)


@command()
@click.option("--records", type=click.IntRange(1_000, 5_000_000), default=200_000, show_default=True, help="Changes.")
@click.option("--keys", type=click.IntRange(10, 5_000_000), default=20_000, show_default=True, help="Users, at most.")
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
@option("compactor.spark_conf")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Seed of the change stream.")
@click.option("--keep", is_flag=True, help="Keep the data afterwards (and the demo's S3 server running, until Ctrl-C).")
def demo(
    invocation: Invocation, records: int, keys: int, engine: str, spark_conf: tuple[str, ...], seed: int, keep: bool
) -> None:
    """Compact generated changes, end to end: Spark appends them, a compactor is killed, another takes over, and what
    Spark reads is checked against a dict.

    It works in a folder of its own under the warehouse given; with none given, in an S3 that it starts on loopback.
    """
    began_ms, screen = monotonic_ms(), Screen()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="lithify-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        env = dict(os.environ)
        java = f" on {use_java(env)}" if engine == "spark" else ""
        if spark_conf:
            parse_spark_conf(spark_conf)
            env[setting("compactor.spark_conf").variable] = shlex.join(spark_conf)
        place = _place(stack, invocation, env, folder, engine)
        screen.title(f"lithify demo in {place.url}, engine {engine}{java}")
        if not keep:
            stack.callback(_delete_all, place.open())
        Story(screen, place).run(change_stream(records, keys, SEGMENTS[engine], seed))
        screen.title(f"\nAll verified, in {(monotonic_ms() - began_ms) / 1000:.0f} s.")
        for line in _next_steps(place, keep):
            screen.say(line)
        if keep and place.requests is not None:
            with suppress(KeyboardInterrupt):
                threading.Event().wait()


def _place(stack: ExitStack, invocation: Invocation, env: dict[str, str], folder: Path, engine: str) -> Place:
    """Always a warehouse of its own: it is collected without a grace period, and deleted at the end."""
    own, root, options = None, invocation.warehouse_url, invocation.storage_options
    if options and setting("storage.option").variable not in env:
        raise InvalidRequest(
            f"the demo starts compactors, and they take storage options from {setting('storage.option').variable}"
        )
    if root is None:
        own = stack.enter_context(OwnS3())
        root, options = own.url, own.options
        env = {name: value for name, value in env.items() if name not in _NOT_FOR_OWN_S3} | own.env
    url = f"{root.rstrip('/')}/lithify-demo-{new_id()}"
    return Place(
        open=lambda: stack.enter_context(open_warehouse(url, storage_options=options)),
        url=url,
        env=env,
        folder=folder,
        engine=engine,
        options={} if own is not None else options,
        requests=own.counts if own is not None else None,
    )


def _delete_all(warehouse: Warehouse) -> None:
    keys = [found.key for found in objects(warehouse.store, "")]
    for start in range(0, len(keys), DELETE_KEYS_MAX):
        warehouse.store.delete(keys[start : start + DELETE_KEYS_MAX])
    root = warehouse.store.local_path(TOPIC)
    if root is not None:
        shutil.rmtree(root.parent, ignore_errors=True)


def _next_steps(place: Place, keep: bool) -> list[str]:
    if not keep:
        return ["Next: the five-minute tour in README.md.", "To look at what this made: lithify demo --keep"]
    changed = sorted(name for name, value in place.env.items() if os.environ.get(name) != value)
    given = [name for name in changed if name.startswith("AWS_")]
    lines = ["What it made is there to look at. In another shell:" if place.requests else "What it made is there:"]
    lines += [f"export {name}={place.env[name]}" for name in given]
    lines += [f"export {setting('warehouse').variable}={place.url}", f"lithify topic describe {TOPIC}"]
    return [*lines, "Ctrl-C here stops its S3 server and discards the data."] if place.requests else lines
