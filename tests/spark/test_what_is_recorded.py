"""What Spark writes into its event log, shows of a plan, and says of an error holds no secret and no record (RFC 0022,
show 7 of its issue)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lithify
from lithify.testing.server import S3Server
from tests.processes import running
from tests.spark.recorded import CONTENTS, HEADER, KEY, SECRET, VALUE

pytestmark = [pytest.mark.soak, pytest.mark.long]


def damage(warehouse: lithify.Warehouse, name: str) -> None:
    """The bytes of its segment, but for the footer."""
    part = warehouse.topic(name).partition(0)
    (ref,) = part.describe().l0
    (key,) = [key for key in every_key(warehouse) if ref.id in key]
    body = warehouse.store.get(key).body
    warehouse.store.put(key, bytes(len(body) // 2) + body[len(body) // 2 :])


def every_key(warehouse: lithify.Warehouse, prefix: str = "damaged/") -> list[str]:
    return [info.key for info in warehouse.store.list(prefix, None).objects]


def test_neither_event_log_nor_plans_nor_errors_hold_a_secret_or_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server() as server:
        for name, value in {**server.env, "AWS_SECRET_ACCESS_KEY": SECRET}.items():
            monkeypatch.setenv(name, value)
        url = server.url(f"{server.create_bucket()}/warehouse")
        warehouse = lithify.open(url)
        for name in ("source", "target", "damaged"):
            topic = warehouse.create_topic(name, config={"cleanup.policy": "compact"})
            if name != "target":
                records = [lithify.Record(KEY + b"%d" % n, VALUE, None, (("h", HEADER),)) for n in range(5)]
                topic.append(records)
        damage(warehouse, "damaged")
        command = [sys.executable, "-m", "tests.spark.recorded", url, str(tmp_path)]
        with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
            out, logged = process.communicate(timeout=300)
        assert process.returncode == 0, logged[-4_000:].decode(errors="replace")
    said = json.loads(out.splitlines()[-1])
    events = [file.read_bytes() for file in (tmp_path / "events").rglob("*") if file.is_file()]
    assert b"SparkListenerTaskEnd" in b"".join(events)
    assert b"ExceptionFailure" in b"".join(events)
    assert len(said["errors"]) == 7
    for text in said["errors"]:
        print(text[:300])
    places = {"events": b"".join(events), "said": out, "logged": logged}
    for place, body in places.items():
        for hidden in (SECRET, *CONTENTS):
            at = body.find(hidden.encode())
            assert at < 0, f"{place}: {body[max(0, at - 200) : at + 100]!r}"
