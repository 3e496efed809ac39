"""A client that schemathesis generates from the OpenAPI document: nothing that it asks, right or wrong, alone or in
sequence, is answered otherwise than the document says, and nothing ends in a fault of the server."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from openapi_spec_validator import OpenAPIV31SpecValidator

import lithify
from lithify.admin.http.app import Limits
from lithify.admin.http.openapi import document
from tests.admin.served import ADMIN, TOKENS, Served
from tests.admin.test_operations import COMPACTED

EXAMPLES_SHARE = 5  # of a property's; --hypothesis-profile=wide asks for ten times as many
NOT_CHECKED = (
    # A cursor, the name of a setting, sources: the server alone knows which of those that fit the document are right.
    "positive_data_acceptance",
    "ensure_resource_availability",  # a topic is there, and not each partition that is made up
    "unsupported_method",  # a name may end in /reset; tests/admin/http/test_door.py
)


def test_the_document_is_openapi() -> None:
    said: Any = json.loads(msgspec.json.encode(document()))
    OpenAPIV31SpecValidator(said).validate()


# DELETE asks a compaction to end; what became of it is still told.
SETTINGS = """
[[operations]]
include-operation-id = "compaction"
checks.use_after_free.enabled = false
"""
THERE = """
[parameters]
"path.topic" = "users"
"path.partition" = 0
"path.name" = "mine"
"path.application" = "nightly"
"path.job" = "JOB"
"""


@pytest.mark.soak
@pytest.mark.parametrize("there", [False, True], ids=["whatever", "what is there"])
@pytest.mark.long
def test_what_is_generated_from_the_document_is_answered_as_it_says(
    there: bool, warehouse: lithify.Warehouse, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic = warehouse.create_topic("users", 2, COMPACTED)
    for number in range(3):
        topic.append([lithify.Record(b"%d" % number, b"v"), lithify.Record(b"k", None)])
    topic.partition(0).append([lithify.Record(b"k", b"v")], txn=("nightly", 1))
    topic.consumer("mine").close()
    admin = lithify.Admin(warehouse)
    admin.create_checkpoint("users", "mine")
    admin.submit("users", 0)
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.run_once()
    compactor.close()
    job = admin.submit("users", 0).id.rpartition("/")[2]
    (tmp_path / "schemathesis.toml").write_text(SETTINGS + (THERE.replace("JOB", job) if there else ""))
    server = serve(admin, TOKENS, limits=Limits(request_s=300))
    (tmp_path / "openapi.json").write_bytes(msgspec.json.encode(document()))
    words = [
        *("run", "openapi.json", "--url", server.url, "--header", f"Authorization: Bearer {ADMIN}"),
        *("--exclude-path", "/v1/events"),  # it has no end; tests/admin/http/test_streams.py
        *("--max-examples", str(max(1, settings().max_examples // EXAMPLES_SHARE)), "--generation-deterministic"),
        *("--continue-on-failure", "--request-timeout", "300", "--no-color"),
        *(("--exclude-operation-id", "delete_topic") if there else ()),
        *("--phases", "examples,coverage,fuzzing,stateful", "--exclude-checks", ",".join(NOT_CHECKED)),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Stateful" in done.stdout
    assert ADMIN not in done.stdout
