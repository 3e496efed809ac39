"""Many processes, each of which appends its numbered records, a few at a time. Run as a program.

python appending_processes.py URL TOPIC PROCESSES APPENDS ROWS STORAGE_OPTIONS_AS_JSON

Each line that it prints is the name of a process and where an append of it went. The processes are forks of one that
has imported everything and done nothing: none waits for its interpreter, and so they do meet.
"""

import json
import os
import sys

import lithify
from tests.processes import exit_codes, forked


def main(url: str, topic: str, processes: str, appends: str, rows: str, options: str) -> int:
    def work(number: int) -> None:
        part = lithify.open(url, storage_options=json.loads(options)).topic(topic).partition(0)
        for append in range(int(appends)):
            records = [lithify.Record(b"p%d" % number, b"%d.%d" % (append, row)) for row in range(int(rows))]
            os.write(1, b"p%d %d\n" % (number, part.append(records).start))

    lithify.open(url, storage_options=json.loads(options))  # asks nothing; imports what this store needs
    return max(map(abs, exit_codes([forked(lambda number=number: work(number)) for number in range(int(processes))])))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
