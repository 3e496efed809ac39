"""What a store is reached by travels whole: a worker with other variables, profiles and keys goes where the driver
goes, or nowhere."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import fsspec.config
import msgspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from lithify.store.errors import InvalidRequest
from lithify.store.fsspec_store import FsspecStore
from lithify.store.opening import open_spec, open_store
from lithify.store.port import StoreSpec
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front
from lithify.testing.server import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
METADATA = {"169.254.169.254:80"}  # where a machine of EC2 asks for its own credentials
DONE = ["created", "of a worker", "9000000", "x", "2", "True"]
PROFILE = """
[default]
{settings}
[profile driver]
region = eu-west-3
endpoint_url = {endpoint}
[profile services]
services = mine
[services mine]
s3 =
  endpoint_url = {endpoint}
"""


@pytest.fixture
def decoy(lithify_s3: S3Server) -> Iterator[Front]:
    """Another S3, which nobody may ask."""
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(forward=False, status=500)) as front:
        yield front
        assert front.seen == []


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    return monkeypatch


def work(spec: StoreSpec, variables: Mapping[str, str], *allowed: str) -> dict[str, Any]:
    """What a worker with these variables says that it did, and whom it wanted to reach."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FSSPEC_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.guarded_worker", *allowed],
        input=msgspec.json.encode(spec),
        env={**kept, "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, **variables},
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def address(server: S3Server) -> str:
    return server.endpoint_url.removeprefix("http://")


SOURCES = ["option", "client option", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "profile", "services"]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_workers_go_where_the_driver_goes_wherever_it_has_that_from(
    source: str, lithify_s3: S3Server, bucket: str, decoy: Front, clean: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    endpoint = lithify_s3.endpoint_url
    options: dict[str, Any] = {"key": "test", "secret": "test"}
    match source:
        case "option":
            options["endpoint_url"] = endpoint
        case "client option":
            options["client_kwargs"] = {"endpoint_url": endpoint}
        case "profile" | "services":
            config = tmp_path / "config"
            config.write_text(PROFILE.format(endpoint=endpoint, settings=""))
            clean.setenv("AWS_CONFIG_FILE", str(config))
            clean.setenv("AWS_PROFILE", "driver" if source == "profile" else "services")
        case variable:
            clean.setenv(variable, endpoint)
    store = open_store(f"s3://{bucket}/p", options)
    spec = store.spec()
    assert not {"key", "secret"} & spec.options.keys()
    assert spec.options["client_kwargs"]["region_name"] == ("eu-west-3" if source == "profile" else "us-east-1")
    hostile = tmp_path / "hostile"
    hostile.write_text(
        f"[default]\nregion = ap-south-1\nendpoint_url = {decoy.endpoint_url}\nuse_dualstack_endpoint = true\n"
        "use_fips_endpoint = true\ns3 =\n  use_accelerate_endpoint = true\n  addressing_style = virtual\n"
    )
    others = {
        "AWS_ENDPOINT_URL_S3": decoy.endpoint_url,
        "AWS_ENDPOINT_URL": decoy.endpoint_url,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_DEFAULTS_MODE": "auto",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "AWS_CSM_ENABLED": "true",
        "AWS_CONFIG_FILE": str(hostile),
    }
    for variables in ({}, others):
        done = work(spec, {**KEYS, **variables}, address(lithify_s3))
        assert done == {"said": [endpoint, *DONE], "wanted": [address(lithify_s3)]}
    credentials = tmp_path / "credentials"
    assert store.write_credentials(credentials)
    done = work(msgspec.structs.replace(spec, credentials_file=str(credentials)), others, address(lithify_s3))
    assert done == {"said": [endpoint, *DONE], "wanted": [address(lithify_s3)]}


@pytest.mark.slow
def test_a_worker_without_keys_asks_nobody_but_its_own_machine(
    lithify_s3: S3Server, bucket: str, clean: pytest.MonkeyPatch
) -> None:
    """Its own credential chain ends with the metadata service of EC2; where that gives none, nothing is sent."""
    spec = open_store(f"s3://{bucket}/p", lithify_s3.options).spec()
    done = work(spec, {}, address(lithify_s3))
    assert set(done["wanted"]) <= METADATA
    assert "check the credentials" in done["said"][-1]
    done = work(spec, {"AWS_EC2_METADATA_DISABLED": "true"}, address(lithify_s3))
    assert done["wanted"] == []


AWS_OWN = {
    "nothing said": {},
    "a region": {"AWS_DEFAULT_REGION": "eu-west-3"},
    "dualstack": {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
    "fips": {"AWS_DEFAULT_REGION": "us-east-2", "AWS_USE_FIPS_ENDPOINT": "true"},
    "china": {"AWS_DEFAULT_REGION": "cn-north-1"},
}


@pytest.mark.slow
@pytest.mark.parametrize("variables", AWS_OWN.values(), ids=AWS_OWN)
def test_amazons_own_endpoint_is_the_same_for_workers_and_keeps_its_ways(
    variables: dict[str, str], clean: pytest.MonkeyPatch
) -> None:
    """It is not pinned: a client given an endpoint neither follows a bucket into its region nor uses its host."""
    for name, value in variables.items():
        clean.setenv(name, value)
    store = S3Store("bucket", "p", {"key": "k", "secret": "s"})
    spec = store.spec()
    assert "endpoint_url" not in {**spec.options, **spec.options["client_kwargs"]}
    others = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_DEFAULT_REGION": "ap-south-1",
        "AWS_USE_FIPS_ENDPOINT": "true",
    }
    for hostile in ({}, others):
        done = work(spec, {**KEYS, **hostile})
        assert done["said"][0] == store.endpoint_url
        host = store.endpoint_url.removeprefix("https://")
        assert done["wanted"] == [f"bucket.{host}:443"]


@pytest.mark.slow
def test_a_redirect_to_elsewhere_is_not_followed(
    lithify_s3: S3Server, bucket: str, decoy: Front, clean: pytest.MonkeyPatch
) -> None:
    body = f"<Error><Code>TemporaryRedirect</Code><Endpoint>{decoy.endpoint_url}</Endpoint></Error>"
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(forward=False, status=307, body=body)) as front:
        spec = open_store(f"s3://{bucket}/p", front.options(lithify_s3.options)).spec()
        done = work(spec, KEYS, front.endpoint_url.removeprefix("http://"))
    assert done["wanted"] == [front.endpoint_url.removeprefix("http://")]


class _Elsewhere(LocalFileSystem):
    protocol = "elsewhere"


def test_a_filesystem_whose_options_were_not_sent_is_not_opened(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    """Without its endpoint, gcsfs would go to Google's."""
    fsspec.register_implementation("elsewhere", _Elsewhere, clobber=True)
    clean.setitem(known_implementations, "elsewhere", {"class": "registered above"})
    clean.setitem(fsspec.config.conf, "elsewhere", {"auto_mkdir": True})
    store = FsspecStore(f"elsewhere://{tmp_path}", {"project": "mine", "endpoint_url": "http://here"}, proven=True)
    spec = store.spec()
    assert spec.options == {"project": "mine"}
    assert spec.withheld == ("auto_mkdir", "endpoint_url")
    with pytest.raises(InvalidRequest, match=r"auto_mkdir, endpoint_url may be secret.*run the workers there"):
        open_spec(spec)
    path = tmp_path / "credentials"
    assert store.write_credentials(path)
    inner = open_spec(msgspec.structs.replace(spec, credentials_file=str(path))).inner
    assert isinstance(inner, FsspecStore)
    assert inner.spec() == spec
