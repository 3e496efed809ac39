"""Settings of the Spark sessions that lithify opens: its defaults, those given, and what they mean for workers. Pure
(docs/rfcs/0020).

Of two values for a setting, the one given to lithify wins over spark-defaults.conf, and that over lithify's default.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lithify.store.errors import InvalidRequest

__all__ = [
    "Ship",
    "check_master",
    "is_connect",
    "is_local",
    "names_in",
    "parse_spark_conf",
    "python_for",
    "session_settings",
    "ship_of",
    "shown_master",
]

_OWN = {
    "spark.app.name": "lithify",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",  # a second copy of a merge only doubles the work; harmless where it is on (P10)
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# The JVMs carry only descriptors: compiling them thoroughly (C2) costs a core for most of their first minute.
_QUICK_JVM = "-XX:TieredStopAtLevel=1"
_DRIVER_JVM = "spark.driver.extraJavaOptions"
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    _DRIVER_JVM: _QUICK_JVM,
    "spark.driver.host": "127.0.0.1",
    "spark.task.maxFailures": "1",  # what kills a worker here kills the next one too; the coordinator retries (P14)
}
_CLUSTER = {
    _DRIVER_JVM: _QUICK_JVM,
    "spark.executor.extraJavaOptions": _QUICK_JVM,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "20s",  # an idle compactor gives its cores back
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",  # of the JVM, which carries only descriptors
    "spark.task.maxFailures": "4",  # an executor or a machine may be lost at any time
}
WORKER_MIB = 768  # a Python worker at its largest: interpreter 160, sources 300, output 64, sort 192 (estimate.py)
_OVERHEAD_MIB = 256  # of the JVM beside its heap

_PAIR = re.compile(r"(?P<name>[^=\s]+)=(?P<value>.*)", re.DOTALL)
_NOT_HERE = {
    "spark.master": "give it as --master (LITHIFY_MASTER)",
    "spark.remote": "give it as --master sc://host:15002",
    "spark.submit.deployMode": "the compactor is the driver, so only client mode is possible",
}
_PACKAGES = (".zip", ".egg", ".py")  # that Spark puts on the workers' path


def parse_spark_conf(pairs: Iterable[str]) -> dict[str, str]:
    """From `NAME=VALUE` each. Raises InvalidRequest, which names the setting and never its value."""
    found: dict[str, str] = {}
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if match is None:
            raise InvalidRequest("--spark-conf needs NAME=VALUE, such as spark.cores.max=4")
        name = match["name"]
        if not name.startswith("spark."):
            raise InvalidRequest(f"--spark-conf {name}: names of Spark's settings begin with 'spark.'")
        if name in found:
            raise InvalidRequest(f"--spark-conf {name} was given twice")
        found[name] = match["value"]
    check_settings(found)
    return found


def check_settings(config: Mapping[str, str]) -> None:
    """Raises InvalidRequest for what cannot work."""
    for name, instead in _NOT_HERE.items():
        if name in config:
            raise InvalidRequest(f"{name} is no setting for lithify's session: {instead}")
    for path in _listed(config.get("spark.submit.pyFiles", "")):
        if path.lower().endswith(".whl"):
            raise InvalidRequest(
                f"spark.submit.pyFiles: Spark ignores {path} in silence, because it ends in .whl: copy it to a name "
                "that ends in .zip (a wheel is a zip file) and give that"
            )
        if not path.lower().endswith(_PACKAGES):
            raise InvalidRequest(f"spark.submit.pyFiles: Spark ignores {path}: give .zip, .egg or .py files")


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return master == "local" or master.startswith("local[")


def is_connect(master: str) -> bool:
    return master.startswith("sc://")


def shown_master(master: str) -> str:
    """Without the parameters of Spark Connect, which may hold a token."""
    return master.split("/;")[0].split(";")[0] if is_connect(master) else master


def check_master(master: str, config: Mapping[str, str]) -> None:
    """Raises InvalidRequest if a session cannot be opened like this."""
    if is_connect(master) and config:
        raise InvalidRequest(
            f"{shown_master(master)}: Spark settings are for sessions that lithify starts; the Spark Connect server "
            "has its own: leave out --spark-conf"
        )
    check_settings(config)


def session_settings(
    master: str, config: Mapping[str, str], defaults: frozenset[str] = frozenset(), log_config: str = ""
) -> dict[str, str]:
    """The settings for a new session. `defaults`: names that spark-defaults.conf sets. `log_config`: URL of the log4j2
    configuration of the driver's JVM; "": Spark's own."""
    ours = _OWN | (_LOCAL if is_local(master) else _CLUSTER)
    if log_config:
        ours[_DRIVER_JVM] = f"{_QUICK_JVM} -Dlog4j2.configurationFile={log_config}"
    chosen = {name: value for name, value in ours.items() if name not in defaults} | dict(config)
    if not is_local(master) and not {"spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"} & (
        defaults | chosen.keys()
    ):
        cores = chosen.get("spark.executor.cores", "")
        count = int(cores) if cores.isdecimal() else 1
        chosen["spark.executor.memoryOverhead"] = f"{count * WORKER_MIB + _OVERHEAD_MIB}m"
    for name in ("spark.submit.pyFiles", "spark.pyspark.python"):  # Spark heeds them only in spark-submit: see `Ship`
        chosen.pop(name, None)
    return chosen


def names_in(properties: str) -> frozenset[str]:
    """The names that a spark-defaults.conf sets."""
    lines = (line.strip() for line in properties.splitlines())
    return frozenset(re.split(r"[\s=:]", line, maxsplit=1)[0] for line in lines if line and not line.startswith("#"))


@dataclass(frozen=True, slots=True)
class Ship:
    """What a session does so that its workers can import lithify."""

    python: str  # what starts Python workers
    files: tuple[str, ...]  # sent to them, and put on their path


def ship_of(config: Mapping[str, str], setting: Callable[[str], str | None], variable: str, here: str) -> Ship:
    """`config`: as given to lithify. `setting`: of the open session. `variable`: PYSPARK_PYTHON, or ''. `here`: this
    process's Python."""
    given = config.get("spark.pyspark.python") or setting("spark.pyspark.python")
    files = tuple(_listed(config.get("spark.submit.pyFiles", "")))
    return Ship(given or python_for(setting("spark.archives") or "", variable, here), files)


def python_for(archives: str, variable: str, here: str) -> str:
    """What starts workers if no setting says it: PYSPARK_PYTHON; or the Python of a packed environment, if there is one
    archive with a name (`env.tar.gz#env`); or the same path as here."""
    if variable and variable != here:
        return variable
    named = [archive.split("#", 1)[1] for archive in _listed(archives) if "#" in archive]
    return f"./{named[0]}/bin/python" if len(named) == 1 and named[0] else here


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
