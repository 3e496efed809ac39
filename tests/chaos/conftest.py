"""Where the chaos happens."""

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import IO

import botocore.endpoint
import pytest

from tests.endpoint import PRESENT, Endpoint
from tests.processes import running


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore waits up to seconds between its attempts, by no injected clock."""
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None))


@pytest.fixture(scope="session")
def moto() -> Iterator[Endpoint]:
    """The atomic moto in a process of its own: its work and the clients' share no interpreter."""
    command = [sys.executable, "-m", "lithify.testing.server"]
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        exported = dict(line.removeprefix("export ").strip().split("=", 1) for line in _lines(process.stdout, 4))
        place = Endpoint(exported["AWS_ENDPOINT_URL_S3"])
        yield place
        place.close()


def _lines(stream: IO[str], count: int) -> list[str]:
    return [stream.readline() for _ in range(count)]


@pytest.fixture(params=["moto", *(["endpoint"] if PRESENT else [])])
def server(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """The atomic moto, and the endpoint that the environment names."""
    if request.param == "moto":
        yield request.getfixturevalue("moto")
        return
    place = Endpoint.named()
    yield place
    place.close()
