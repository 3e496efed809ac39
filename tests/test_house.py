"""The house's own rules: what may import what, what lies where, and what the wheel holds."""

import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tree import FOLDERS, IGNORED, PLACES, PROJECT, ROOT, SETUPTOOLS, package_files, relative, syntax, tree_files

pytestmark = pytest.mark.xdist_group("sources")  # who has parsed them has them
CHECKED_TOO = {"tests/sim", "tests/chaos", "tests/properties", "benchmarks", "tools"}  # by the type gate
SUBPACKAGES = sorted(set(FOLDERS) - {"lithify"})
IMPORTED_AS = {folder: package for package, folder in PLACES.items() if "/" not in folder}

# Who may import whom. Whatever stands in no list is the face's or the operators' side: lithify, admin, cli.
BASE = {"store"}
TRUTH = BASE | {"manifest"}
DATA = TRUTH | {"segment"}
ALLOWED = {
    "store": BASE,
    "manifest": TRUTH,
    "segment": DATA,
    "work": DATA | {"work"},
    "events": TRUTH | {"events"},
    "log": DATA | {"work", "log"},
    "gc": DATA | {"events", "gc"},
    "compactor": DATA | {"work", "events", "compactor"},
    "lithify": set(FOLDERS) - {"testing"},
    "admin": set(FOLDERS) - {"cli", "lithify"},
    "cli": set(FOLDERS),
    "spark": DATA | {"log"},
    "testing": set(FOLDERS),
}

# What commands for operators may import of the packages below `admin`; then the whole of `cli`, and of `cli` without
# its folders.
OPERATORS_KNOW = {"manifest.config", "manifest.jobs", "manifest.model", "manifest.words"} | {
    "store.apart", "store.errors", "store.probe", "store.request_counts", "store.urls",
} | {
    "compactor.info", "compactor.policy", "gc.collector", "log.consumer_info", "log.info",
    "log.transactions", "segment.spill", "work.java",
}  # fmt: skip
MANIFEST_KNOWN_TO_CLI = {"manifest.config", "manifest.homes", "manifest.jobs", "manifest.model"} | {
    *("manifest.quantities", "manifest.transactions", "manifest.words"),
}  # fmt: skip
STORE_KNOWN_TO_CLI = {"store.apart", "store.errors", "store.metered", "store.port", "store.probe"} | {
    *("store.request_counts", "store.urls"),
}  # fmt: skip

# Decisions are functions of their arguments: no network, no engine, no clock, no chance. A file that says "Pure" of
# itself is one of them.
PURE = re.compile(r"\bPure\b")
PURE_AT_LEAST = {"manifest/compactions.py", "manifest/invariants.py", "compactor/policy.py", "compactor/job_edits.py"}
IMPURE_MODULES = {
    "boto3", "botocore", "datetime", "fsspec", "pyspark", "random", "s3fs", "secrets", "time", "uuid",
}  # fmt: skip

READERS = {"admin", "events", "gc", "log", "manifest"}  # of numbered files
LINES_MAX = 400
IMPORTS_TIME = re.compile(r"^\s*(from\s+time\b|import\b.*\btime\b)", re.MULTILINE)
SUFFIX = re.compile(r"\.(manifest|compactor|boundary|topic|parquet)$")
MODULE = re.compile(r"(.*\W)?lithify(\.\w+)+")


def imported_modules(tree: ast.AST) -> set[str]:
    """Dotted names; `from a import b` counts as a.b, since b may be a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute in this house"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imported_folders(tree: ast.AST) -> set[str]:
    parts = [name.split(".") for name in imported_modules(tree)]
    ours = [name for name in parts if name[0] == "lithify"]
    return {name[1] if len(name) > 1 and name[1] in FOLDERS else "lithify" for name in ours}


def modules_below(tree: ast.AST, folders: set[str]) -> set[str]:
    """The modules that it imports of these packages: manifest.words."""
    parts = [name.split(".") for name in imported_modules(tree)]
    return {".".join(name[1:3]) for name in parts if name[0] == "lithify" and name[1:2] and name[1] in folders}


def test_nothing_else_lies_at_the_top() -> None:
    """Warehouses that tests left in the checkout were committed once. Hidden files are their owner's business, and what
    the README's commands make there is ignored by git."""
    files = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"}
    files |= {"requirements.lock", "requirements-benchmark.lock"}
    others = {"benchmarks", "deploy", "docs", "tests", "tools", "typings"}
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    found = {entry.name for entry in ROOT.iterdir() if not entry.name.startswith(".")}
    assert found - IGNORED - ignored - files - others - set(FOLDERS) == set()


def test_mapping_links_and_folders_agree() -> None:
    marked = {file.parent.name for file in ROOT.glob("*/py.typed")}
    links = {link.name: os.readlink(link) for link in (ROOT / "typings" / "lithify").iterdir()}
    inside = sorted(set(SUBPACKAGES) - {"spark"})  # whose package is pyspark_lithify, the name by which Spark finds it
    assert sorted(SETUPTOOLS["packages"]) == sorted(PLACES)
    folders = {name: name.removeprefix("lithify.").replace(".", "/") for name in PLACES}
    assert folders | {"pyspark_lithify": "spark"} == PLACES
    assert os.readlink(ROOT / "typings" / "pyspark_lithify") == "../spark"
    assert marked == set(FOLDERS)
    assert links == {name: f"../../{name}" for name in inside} | {"__init__.py": "../../lithify/__init__.py"}
    assert set(PROJECT["tool"]["pyright"]["include"]) == marked | CHECKED_TOO
    data = {"*": ["py.typed"], "lithify.admin.http": ["static/*"], "lithify.work": ["log4j2.properties"]}
    assert SETUPTOOLS["package-data"] == data
    assert set(ALLOWED) == set(FOLDERS)


def test_every_folder_with_python_in_it_is_a_package_or_known() -> None:
    folders = {relative(file).split("/")[0] for file in tree_files() if file.suffix == ".py" and file.parent != ROOT}
    assert folders - set(FOLDERS) <= {"benchmarks", "docs", "stubs", "tests", "tools"}


def test_every_folder_of_a_package_is_listed() -> None:
    """Setuptools packs the listed packages only: any other folder would be missing from the wheel."""
    assert {relative(file.parent) for file in package_files()} == set(PLACES.values())


def test_a_bare_import_is_refused_and_gc_stays_pythons_own() -> None:
    program = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
said = {}
for name in sys.argv[2:]:
    try:
        said[name] = str(importlib.import_module(name))
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(ROOT), *SUBPACKAGES], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    assert said.pop("gc") == "<module 'gc' (built-in)>"
    for name in sorted(set(SUBPACKAGES) - {"gc"}):
        assert said[name].startswith(f"import {IMPORTED_AS[name]}, not {name}"), said[name]


def test_lint_bans_every_bare_import_but_gc() -> None:
    banned = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(SUBPACKAGES) - {"gc"} <= set(banned)


def test_imports_go_one_way() -> None:
    found = {relative(file): imported_folders(syntax(file)) for file in package_files()}
    strays = {name: folders - ALLOWED[name.split("/")[0]] for name, folders in found.items()}
    assert {name: folders for name, folders in strays.items() if folders} == {}


def test_commands_for_operators_are_clients_of_admin() -> None:
    """They have flags, tables and questions. What they may know of the packages below: words, errors, and types."""
    commands = [
        "checkpoints",
        "compactions",
        "consumers",
        "doctor",
        "garbage",
        "manifests",
        "submitted",
        "topics",
        "transactions",
    ]
    files = {name: ROOT / "cli" / f"{name}.py" for name in [*commands, "verification"]}
    found = {name: modules_below(syntax(file), set(FOLDERS) - {"admin", "cli"}) for name, file in files.items()}
    assert {(name, module) for name, modules in found.items() for module in modules - OPERATORS_KNOW} == set()
    assert OPERATORS_KNOW - {module for modules in found.values() for module in modules} == set()


def test_the_command_line_knows_little_of_what_is_stored() -> None:
    """`manifest` and `store` are for those who commit and read. A new name here is a reason to ask Admin, or the log.
    `cli/records` reads and writes other people's files, and `cli/demo` shows what lies in the store."""
    files = [file for file in package_files() if relative(file).startswith("cli/")]
    known = {relative(file): modules_below(syntax(file), {"store", "manifest"}) for file in files}
    manifest = {module for modules in known.values() for module in modules if module.startswith("manifest")}
    assert manifest == MANIFEST_KNOWN_TO_CLI
    flat = {module for name, modules in known.items() if name.count("/") == 1 for module in modules}
    assert flat - manifest == STORE_KNOWN_TO_CLI


def test_pure_files_import_nothing_impure() -> None:
    found = [file for file in package_files() if PURE.search(ast.get_docstring(syntax(file)) or "")]
    assert {relative(file) for file in found} >= PURE_AT_LEAST
    impure = {relative(file): {name.split(".")[0] for name in imported_modules(syntax(file))} for file in found}
    assert {file: modules & IMPURE_MODULES for file, modules in impure.items() if modules & IMPURE_MODULES} == {}


def test_the_judge_of_simulations_shares_no_code_with_the_product() -> None:
    """Or a fault of the product would be its own excuse: it imports itself, msgspec and Python alone."""
    files = sorted((ROOT / "tests/sim/judge").glob("*.py"))
    assert files
    modules = {module for file in files for module in imported_modules(syntax(file))}
    foreign = {m for m in modules if m.split(".")[0] not in sys.stdlib_module_names and not m.startswith("msgspec")}
    assert {module for module in foreign if not module.startswith("tests.sim.judge.")} == set()


def test_no_test_waits_or_tells_the_time() -> None:
    """Randomness from a seed is allowed in tests, so lint's ban is off there; this part of it stays."""
    files = [file for file in tree_files(ROOT / "tests") if file.suffix == ".py"]
    assert len(files) > 1
    suspects = [file for file in files if IMPORTS_TIME.search(file.read_text(encoding="utf-8"))]
    assert [
        relative(file) for file in suspects if "time" in {m.split(".")[0] for m in imported_modules(syntax(file))}
    ] == []
    assert all(map(IMPORTS_TIME.search, ("import time", "  import os, time as t", "from time import sleep")))


def test_tests_make_references_and_answer_for_engines_in_one_place() -> None:
    """A new field of a reference, or a new request of a coordinator, then meets one file. Golden files stay apart on
    purpose; the engine of the simulation has workers that outlive it."""
    texts = {relative(f): f.read_text(encoding="utf-8") for f in (ROOT / "tests").rglob("*.py") if f != Path(__file__)}
    assert {name for name, text in texts.items() if re.search(r"\bSegmentRef\(", text)} == {
        "tests/golden/make.py",
        "tests/refs.py",
    }
    assert {name for name, text in texts.items() if re.search(r"\bcase StartTasks\(", text)} == {
        "tests/compactor/scripted_engine.py",
        "tests/sim/daemon.py",
        "tests/sim/engine.py",
    }


@pytest.mark.slow
def test_one_file_asks_for_numbered_files_to_be_created() -> None:
    """Every order of the protocol hangs on `Create` (P1): commit_point.py alone makes the request, and parts.py for
    what is created before."""

    def creates(tree: ast.AST) -> bool:
        names = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        return any("Create" in (getattr(name, "id", None), getattr(name, "attr", None)) for name in names)

    where = {relative(file) for file in package_files() if creates(syntax(file))}
    assert where <= {"manifest/commit_point.py", "manifest/parts.py"}


def test_who_can_do_without_a_damaged_numbered_file_can_do_without_one_of_a_later_release() -> None:
    """Both are "there, and cannot be read" (RFC 0002): `Lineage.glance`, or both errors caught."""
    others = {  # what they read are run lists and segments; they tell any error; the last knows the difference
        *("admin/compactions.py", "admin/manifests.py"),
        *("admin/verify.py", "gc/unpinned.py", "log/info.py"),
        "manifest/commit.py",
    }
    readers = [file for file in package_files() if relative(file).split("/")[0] in READERS]

    def catches_damage_alone(tree: ast.AST) -> bool:
        caught = (ast.walk(node.type) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type)
        names = ({each.id for each in nodes if isinstance(each, ast.Name)} for nodes in caught)
        return any("Corrupt" in each and "LaterFormat" not in each for each in names)

    assert catches_damage_alone(ast.parse("try: pass\nexcept (Corrupt, InvalidRequest) as error: pass"))
    assert {relative(file) for file in readers if catches_damage_alone(syntax(file))} == others


def test_one_file_knows_the_paths() -> None:
    def spells_a_path(tree: ast.AST) -> bool:
        texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        return any(isinstance(text, str) and SUFFIX.search(text) and not MODULE.fullmatch(text) for text in texts)

    assert spells_a_path(syntax(ROOT / "manifest" / "keys.py"))
    assert {relative(file) for file in package_files() if spells_a_path(syntax(file))} == {"manifest/keys.py"}


def test_the_bytes_of_a_reference_are_found_in_one_way() -> None:
    """`where` tells the home, too; `segment` of a reference's id would overlook it."""

    def overlooks_homes(tree: ast.AST) -> bool:
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) == 1)
        named = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "segment")
        return any(isinstance(call.args[0], ast.Attribute) and call.args[0].attr == "id" for call in named)

    assert overlooks_homes(ast.parse("keys.segment(ref.id)"))
    assert {relative(file) for file in package_files() if overlooks_homes(syntax(file))} == {"manifest/homes.py"}


def test_segments_are_opened_and_checked_in_one_place() -> None:
    """`Segments` finds the store of a reference's home; who names a store and a key could name the wrong ones."""
    doors = {"SegmentReader", "verify", "verify_quick", "verify_rows", "verify_steps"}

    def passes_by(tree: ast.AST) -> bool:
        called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        return any(isinstance(name, ast.Name) and name.id in doors for name in called)

    segments = {relative(file) for file in package_files() if passes_by(syntax(file))}
    assert segments <= {"segment/segments.py", "segment/verify.py", "cli/demo/picture.py", "cli/demo/story.py"}


def test_no_file_asks_which_home_it_is() -> None:
    """A home is compared where homes are the matter: who needs to know whether one can be reached asks `reachable`."""

    def asks(tree: ast.AST) -> bool:
        tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp)]
        tests += [test for node in ast.walk(tree) if isinstance(node, ast.comprehension) for test in node.ifs]
        compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BoolOp)]
        found = (node for part in [*tests, *compared] for node in ast.walk(part))
        return any(isinstance(node, ast.Attribute) and node.attr == "home" for node in found)

    assert asks(ast.parse("x = 1 if ref.home else 2"))
    named = [file for file in package_files() if ".home" in file.read_text(encoding="utf-8")]
    about_homes = {"homes", "cold", "relocations"}
    assert {relative(file) for file in named if asks(syntax(file))} == {
        *(f"manifest/{name}.py" for name in about_homes),
        *("admin/homes.py", "compactor/coordinator.py", "compactor/relocating.py", "gc/objects.py", "store/cold.py"),
    }


def test_no_file_is_too_long() -> None:
    ours = [file for file in tree_files() if file.suffix in {".css", ".html", ".js", ".py"}]
    lengths = {relative(file): len(file.read_bytes().splitlines()) for file in ours}
    assert {file: lines for file, lines in lengths.items() if lines > LINES_MAX} == {}


def test_no_registry_host_and_no_machine_path_in_the_tree() -> None:
    # Spelled in pieces, so that this file does not find itself.
    hosts = ["python" + "hosted", "pypi" + r"\.org", "registry" + r"\.npmjs"]
    roots = ["ho" + "me", "opt/py" + "pi", "ro" + "ot", "Us" + "ers", "wo" + "rk"]
    paths = [rf"(?<![\w.*}}>-])/{name}/" for name in roots]
    needle = re.compile("|".join(hosts + paths))
    texts = {relative(file): file.read_text(encoding="utf-8", errors="replace") for file in tree_files()}
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts.items()
        if needle.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if needle.search(line)
    ]
    assert found == []


def test_the_lock_pins_every_dependency_by_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\w)", lock.strip())
    assert all(re.match(r"[\w.-]+==\S+ .*\\\n\s+--hash=sha256:", entry) for entry in entries)
    locked = {re.split(r"==", entry)[0] for entry in entries}
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    wanted += [name for extra in PROJECT["project"]["optional-dependencies"].values() for name in extra]
    assert {re.split(r"[\[<>=]", name)[0] for name in wanted} <= locked


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    groups = [PROJECT["project"]["dependencies"], PROJECT["build-system"]["requires"]]
    groups += [*PROJECT["project"]["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()]
    assert [name for group in groups for name in group if f"| `{name}` |" not in page] == []


def in_a_wheel(file: str) -> str:
    folder, _, rest = file.partition("/")
    package = IMPORTED_AS[folder].replace(".", "/")
    return f"{package}/{rest}"


@pytest.mark.slow
def test_the_wheel_holds_every_package_and_imports_from_an_empty_folder(tmp_path: Path) -> None:
    checkout, unpacked, empty = (tmp_path / name for name in ("checkout", "unpacked", "empty"))
    empty.mkdir()
    checkout.mkdir()  # setuptools builds in the tree: a copy keeps tests in parallel out of each other's way
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file() and file.name in {"pyproject.toml", "LICENSE", "README.md"}:
            shutil.copy(file, checkout)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(tmp_path), str(checkout)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("lithify-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    packages = [unpacked / "lithify", unpacked / "pyspark_lithify"]
    packed = {file.relative_to(unpacked).as_posix() for package in packages for file in package.rglob("*")}
    files = [relative(file) for file in package_files()] + [f"{folder}/py.typed" for folder in FOLDERS]
    files += [relative(file) for file in (ROOT / "admin" / "http" / "static").iterdir()]
    assert {in_a_wheel(file) for file in files} <= packed
    assert "pyspark_lithify" in {found.name for found in pkgutil.iter_modules([str(unpacked)])}  # so does Spark look
    program = "import sys, importlib as i; [print(i.import_module(name).__file__) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", program, *SETUPTOOLS["packages"]],
        cwd=empty,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if not line.startswith(str(unpacked))] == []
