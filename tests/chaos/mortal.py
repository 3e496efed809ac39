"""A real process that gets SIGKILL at its n-th act on a warehouse's files, between two system calls or in the middle
of what its other threads do. Run as a program:

    python -m tests.chaos.mortal ACTS FOLDER produce NAME       an idempotent producer, until it dies
    python -m tests.chaos.mortal ACTS FOLDER run WORD ...   the command line

ACTS 0: it lives.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import lithify
from lithify.cli.main import cli
from tests.chaos.actors import TOPICS
from tests.chaos.records import record

LAST_RECORDS = 5  # of a producer that lives
# Python tells of these (PEP 578) before each is done.
ACTS = {"open", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir"}


def die_at(acts: int, folder: str) -> None:
    done = itertools.count(1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ACTS and str(arguments[0]).startswith(folder) and next(done) == acts:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def produce(folder: str, name: str, records: int | None) -> None:
    """Append numbered records to every topic and say where each one is; go on after those that the log holds."""
    warehouse = lithify.open(folder)
    topics = [warehouse.topic(topic) for topic in TOPICS]
    producers = [topic.producer(name, {"linger.ms": 0}) for topic in topics]
    nexts = [sum(producer.sequences) for producer in producers]  # one after the other: the first so many are there
    for _ in itertools.count() if records is None else range(records):
        for index, producer in enumerate(producers):
            one = record(name, nexts[index])
            delivery = producer.append(one.key, one.value)
            print(topics[index].name, delivery.partition, delivery.offset(), nexts[index], flush=True)
            nexts[index] += 1
    for producer in producers:
        producer.close()


def main(acts: int, folder: str, what: str, *words: str) -> int:
    if acts:
        die_at(acts, str(Path(folder).resolve()))
    if what == "produce":
        produce(folder, words[0], None if acts else LAST_RECORDS)
        return 0
    return cli.main(["--warehouse", folder, *words], prog_name="lithify")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
