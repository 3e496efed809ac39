"""A row of `far`: DuckDB's own S3 reading of the files that we scan, beside our scan.

Both read anew each time: DuckDB's memory of what it has read of remote files is switched off, since with it only the
first round would read S3.

DuckDB reads S3 by an extension, which must be of its own version. PyPI has one for a release that is not the one of the
other benchmarks, so both live in a virtual environment of their own, made at the first use.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import lithify
from benchmarks.far_bars import OURS, THEIRS
from benchmarks.far_rows import FarRow
from benchmarks.far_site import Place, Site, timed

__all__ = ["duckdb"]

_FOLDER = Path(tempfile.gettempdir()) / "lithify-bench-duckdb-s3"
_LOCK = Path(__file__).parent / "duckdb-s3.txt"
_TIMES = 5

# Reads lines {"endpoint", "files"}; answers each with seconds and rows.
_CHILD = """
import json, sys, time
import duckdb, duckdb_extension_httpfs
from pathlib import Path
key, secret, packages = sys.argv[1:]
sys.path.append(packages)  # for pyarrow alone: the rest is its own
(extension,) = Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension")
connections = {}
for line in sys.stdin:
    asked = json.loads(line)
    if (connection := connections.get(asked["endpoint"])) is None:
        connection = connections[asked["endpoint"]] = duckdb.connect()
        connection.execute(f"load '{extension}'")
        connection.execute(f"set s3_endpoint='{asked['endpoint']}'")
        for setting in ("s3_use_ssl=false", "s3_url_style='path'", "s3_region='us-east-1'"):
            connection.execute(f"set {setting}")
        connection.execute("set enable_external_file_cache=false")
        connection.execute(f"set s3_access_key_id='{key}'")
        connection.execute(f"set s3_secret_access_key='{secret}'")
    began = time.perf_counter()
    columns = 'key, value, "offset", timestamp_ms, headers'
    found = connection.execute(f"select {columns} from read_parquet(?)", [asked["files"]])
    rows = sum(batch.num_rows for batch in found.to_arrow_reader(65536))
    print(json.dumps([time.perf_counter() - began, rows]), flush=True)
"""


def duckdb(site: Site) -> Iterator[FarRow]:
    """One run, by turns with our scan of it."""
    python = _python()
    if python is None:
        site.not_run.append("DuckDB's S3 reading: its extension httpfs could not be installed")
        return
    partitions = {place.name: place.open(site.data).topic("clean").partition(0) for place in site.places}
    live = _live(site, partitions["near"])
    ours: dict[str, list[float]] = {"near": [], "far": []}
    packages = str(Path(pa.__file__).parent.parent)
    command = [str(python), "-c", _CHILD, "bench-key", "bench-secret", packages]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        there, back = child.stdin, child.stdout
        assert there is not None
        assert back is not None

        def run(place: Place) -> float:
            ours[place.name].append(timed(lambda: _scanned(partitions[place.name])))
            endpoint = place.endpoint.endpoint_url.removeprefix("http://")
            print(json.dumps({"endpoint": endpoint, "files": live}), file=there, flush=True)
            seconds, rows = json.loads(back.readline())
            assert rows >= _scanned(partitions[place.name]), "DuckDB read fewer rows"
            return seconds

        theirs = site.alternately(_TIMES, run)
        there.close()
    # The first of ours was to warm up, too.
    yield FarRow.of("duckdb", OURS, "s", (ours["near"][1:], ours["far"][1:]))
    yield FarRow.of("duckdb", THEIRS, "s", theirs)


def _scanned(partition: lithify.Partition) -> int:
    return sum(batch.num_rows for batch in partition.scan())


def _live(site: Site, partition: lithify.Partition) -> list[str]:
    live = {segment.id for run in partition.describe().runs for segment in run.segments}
    keys = [key for key in site.objects("data/clean/") if Path(key).stem in live]
    assert len(keys) == len(live), "a live segment is not there"
    return [site.object_url(key) for key in keys]


def _python() -> Path | None:
    """Of the environment with DuckDB and its extension. None: it cannot be made here."""
    python = _FOLDER / "bin" / "python"
    check: list[Any] = [python, "-c", "import duckdb, duckdb_extension_httpfs"]
    if python.exists() and not subprocess.run(check, capture_output=True, check=False).returncode:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_FOLDER)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(_LOCK)]
    done = subprocess.run([str(python), *install], check=False)
    return python if not done.returncode else None
