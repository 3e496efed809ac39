"""deploy/: the files are what their programs take, and name only commands, flags and variables that exist."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from lithify.cli.main import cli
from lithify.cli.settings import SETTINGS
from lithify.store.errors import Fenced, InvalidRequest, Unavailable
from tests.debian import program

FOLDER = Path(__file__).parents[2] / "deploy"
UNIT = FOLDER / "lithify-compactor.service"
PORT = 8480


def manifests() -> dict[str, Any]:
    found = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
    return {each["kind"]: each for each in found}


def test_kubernetes_takes_the_manifests() -> None:
    for each in manifests().values():
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_fit_each_other() -> None:
    found = manifests()
    deployment, template = found["Deployment"]["spec"], found["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    selectors = (
        deployment["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    )
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert deployment["replicas"] > found["PodDisruptionBudget"]["spec"]["minAvailable"]
    (container,) = template["spec"]["containers"]
    (port,) = container["ports"]
    assert (port["containerPort"], port["name"]) == (PORT, found["Service"]["spec"]["ports"][0]["targetPort"])
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} == {
        "/healthz",
        "/readyz",
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        each["name"] for each in template["spec"]["volumes"]
    }
    assert template["spec"]["volumes"][0]["secret"]["secretName"] == found["Secret"]["metadata"]["name"]
    assert template["spec"]["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    known_variables = {setting.variable for setting in SETTINGS}
    given = {each["name"]: each["value"] for each in container["env"]}
    assert given.keys() <= known_variables
    assert container["resources"]["limits"]["memory"] == "2Gi"
    at_once = int(given["LITHIFY_COMPACTOR_PARALLELISM"]) + 1  # one of a short job
    assert at_once * 537 <= 1_800, "the most that a worker takes (README.md), and room for the rest"


def test_the_tokens_of_the_manifests_are_refused_until_they_are_replaced() -> None:
    tokens = manifests()["Secret"]["stringData"]["tokens"]
    refused = CliRunner().invoke(
        cli,
        ["--warehouse", "memory://deploy", "serve", "--http", "127.0.0.1:0"],
        env={"LITHIFY_HTTP_TOKENS": tokens},
    )
    assert refused.exit_code == 2
    assert "a token is at least 32" in refused.stderr


def commands() -> dict[str, list[str]]:
    """What each file starts, without `lithify`."""
    unit = re.search(r"^ExecStart=\S+/lithify (.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    image = re.search(r"^CMD (\[.*\])$", (FOLDER / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert unit is not None
    assert image is not None
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return {"unit": unit[1].split(), "image": json.loads(image[1]), "kubernetes": container["args"]}


@pytest.mark.parametrize("file", ["unit", "image", "kubernetes"])
def test_the_commands_exist(file: str) -> None:
    """With --once, `--http` is refused after all words were understood, and before anything is done."""
    words = ["--warehouse", "memory://deploy", *commands()[file]]
    found = CliRunner().invoke(cli, [*words, "--once", "--http", "127.0.0.1:0"])
    assert found.exit_code == 2
    assert "--http is for a service" in found.stderr


def test_the_variables_of_the_image_exist() -> None:
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    named = set(re.findall(r"LITHIFY_[A-Z_]+", text + UNIT.read_text(encoding="utf-8")))
    assert named
    assert named <= {setting.variable for setting in SETTINGS}


def test_the_image_runs_as_nobody_and_is_looked_after() -> None:
    lines = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    last = len(steps) - 1 - [name for name, _ in reversed(steps)].index("FROM")
    final = dict(steps[last:])
    assert final["USER"] == "10001:10001"
    assert str(PORT) in final["HEALTHCHECK"]
    assert json.loads(final["HEALTHCHECK"].partition("CMD ")[2])[0] == "python"


def test_the_commands_of_the_page_install_the_unit(tmp_path: Path) -> None:
    """On a machine that has nothing of it: there was no /etc/lithify to install into."""
    page = (FOLDER.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^## systemd\n[^`]*```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    called, programs = tmp_path / "called", tmp_path / "programs"
    (tmp_path / "etc" / "systemd" / "system").mkdir(parents=True)
    for path in (programs / "python3", programs / "systemctl", tmp_path / "opt/lithify/bin/pip"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{path.name} $*" >>{called}\n')
        path.chmod(0o755)
    script = re.sub(r"(?<![\w.])/(etc|opt)/", rf"{tmp_path}/\1/", block)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=FOLDER.parent,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    environment = tmp_path / "etc" / "lithify" / "compactor.env"
    assert environment.stat().st_mode & 0o777 == 0o600
    given = dict(line.split("=", 1) for line in environment.read_text(encoding="utf-8").splitlines())
    assert given.keys() <= {setting.variable for setting in SETTINGS}
    assert (tmp_path / "etc" / "systemd" / "system" / UNIT.name).read_bytes() == UNIT.read_bytes()
    asked = called.read_text(encoding="utf-8").splitlines()
    assert asked[-1] == "systemctl enable --now lithify-compactor"
    (installed,) = [line.split()[-1] for line in asked if line.startswith("pip install")]
    assert installed == ".[http]", "from the checkout: no release can be installed by its name"


def test_an_image_is_not_built_from_what_no_checkout_has() -> None:
    """A .venv and an .env of the one who builds it were copied, too."""
    root = FOLDER.parent
    left_out = set((root / ".dockerignore").read_text(encoding="utf-8").split())
    ignored = (root / ".gitignore").read_text(encoding="utf-8").split()
    assert {f"**/{name.strip('/')}" for name in ignored} | {".git", "**/.env"} <= left_out


def test_the_unit_is_started_again_as_long_as_it_takes() -> None:
    """A store that is away for an hour ends each start within seconds: a limit of starts left it down afterwards."""
    lines = dict(line.partition("=")[::2] for line in UNIT.read_text(encoding="utf-8").splitlines() if "=" in line)
    assert (lines["StartLimitIntervalSec"], lines["Restart"]) == ("0", "on-failure")
    prevented = {int(code) for code in lines["RestartPreventExitStatus"].split()}
    assert prevented == {InvalidRequest.exit_code, Fenced.exit_code}
    assert Unavailable.exit_code not in prevented


@pytest.mark.soak
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With a lithify that is there, since it looks for the program."""
    lithify = Path(sys.executable).with_name("lithify")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/lithify/bin/lithify", str(lithify)))
    found = program("systemd-analyze")
    done = subprocess.run(
        [found.path, "verify", str(unit)], env=found.environment, capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, [])
    exposed = subprocess.run(
        [found.path, "security", "--offline=true", "--threshold=20", str(unit)],
        env=found.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert exposed.returncode == 0, exposed.stdout[-500:]
