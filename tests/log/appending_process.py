"""What one of many processes does: append its numbered records, one or a few at a time. Run as a program.

python appending_process.py URL TOPIC NAME APPENDS ROWS [ACCESS KEY, SECRET, ENDPOINT as JSON]
"""

import json
import sys

import lithify


def main(url: str, topic: str, name: str, appends: str, rows: str, options: str = "null") -> None:
    part = lithify.open(url, storage_options=json.loads(options)).topic(topic).partition(0)
    for number in range(int(appends)):
        records = [lithify.Record(name.encode(), b"%d.%d" % (number, row)) for row in range(int(rows))]
        offsets = part.append(records)
        print(offsets.start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
