"""Settings of sessions: which value wins, what is refused with one message, and what starts the workers' Python."""

import pytest

from lithify.store.errors import InvalidRequest
from lithify.work.spark_conf import (
    check_master,
    is_local,
    names_in,
    parse_spark_conf,
    python_for,
    session_settings,
    ship_of,
    shown_master,
)

MASTER = "spark://head:7077"
HERE = "/opt/lithify/bin/python"


def test_pairs_are_parsed_and_values_may_hold_anything() -> None:
    assert parse_spark_conf(["spark.a=1=2", "spark.b=", "spark.c=x y"]) == {
        "spark.a": "1=2",
        "spark.b": "",
        "spark.c": "x y",
    }


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (["spark.a"], "NAME=VALUE"),
        (["=s3cret"], "NAME=VALUE"),
        (["sparks.a=s3cret"], "begin with 'spark.'"),
        (["spark.a=1", "spark.a=s3cret"], "spark.a was given twice"),
        (["spark.master=s3cret"], "--master"),
        (["spark.remote=s3cret"], "--master sc://"),
        (["spark.submit.deployMode=cluster"], "client mode"),
        (["spark.submit.pyFiles=a.zip,b/lithify-1.whl"], r"b/lithify-1\.whl in silence.*\.zip"),
        (["spark.submit.pyFiles=lithify.tar.gz"], r"ignores lithify\.tar\.gz"),
    ],
)
def test_what_cannot_work_is_refused_without_its_value(pairs: list[str], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as raised:
        parse_spark_conf(pairs)
    assert "s3cret" not in str(raised.value)


def test_given_settings_win_over_spark_defaults_and_those_over_ours() -> None:
    defaults = names_in("# mine\nspark.executor.memory   8g\n\nspark.ui.enabled=true\n  spark.task.maxFailures: 9\n")
    assert defaults == {"spark.executor.memory", "spark.ui.enabled", "spark.task.maxFailures"}
    chosen = session_settings(MASTER, {"spark.ui.enabled": "false"}, defaults)
    assert chosen["spark.ui.enabled"] == "false"
    assert not {"spark.executor.memory", "spark.task.maxFailures"} & chosen.keys()
    assert chosen["spark.dynamicAllocation.minExecutors"] == "0"


@pytest.mark.parametrize(
    ("config", "overhead"),
    [
        ({}, "1024m"),
        ({"spark.executor.cores": "4"}, "3328m"),
        ({"spark.executor.cores": "many"}, "1024m"),
        ({"spark.executor.memoryOverhead": "7g"}, "7g"),
        ({"spark.executor.memoryOverheadFactor": "0.5"}, None),
    ],
)
def test_executors_get_memory_for_each_python_worker(config: dict[str, str], overhead: str | None) -> None:
    assert session_settings(MASTER, config).get("spark.executor.memoryOverhead") == overhead


@pytest.mark.parametrize("master", [MASTER, "local[2]"])
def test_the_log_configuration_gives_way_to_options_of_the_users(master: str) -> None:
    name, url = "spark.driver.extraJavaOptions", "file:///a%20b/log4j2.properties"
    assert session_settings(master, {}, log_config=url)[name].endswith(f" -Dlog4j2.configurationFile={url}")
    assert "log4j2" not in session_settings(master, {})[name]
    assert session_settings(master, {name: "-Da=b"}, log_config=url)[name] == "-Da=b"
    assert name not in session_settings(master, {}, frozenset((name,)), url)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_session_has_no_executors(master: str) -> None:
    chosen = session_settings(master, {})
    assert is_local(master)
    assert chosen["spark.task.maxFailures"] == "1"
    assert chosen["spark.driver.host"] == "127.0.0.1"
    assert not [name for name in chosen if name.startswith(("spark.executor", "spark.dynamicAllocation"))]


@pytest.mark.parametrize("master", [MASTER, "yarn", "k8s://https://api:6443", "local-cluster[2,1,1024]"])
def test_a_cluster_is_let_retry_and_gets_its_cores_back(master: str) -> None:
    chosen = session_settings(master, {"spark.submit.pyFiles": "a.zip", "spark.pyspark.python": "p"})
    assert not is_local(master)
    assert chosen["spark.task.maxFailures"] == "4"
    assert chosen["spark.dynamicAllocation.enabled"] == "true"
    assert not {"spark.submit.pyFiles", "spark.pyspark.python", "spark.driver.host"} & chosen.keys()


@pytest.mark.parametrize(
    ("archives", "variable", "python"),
    [
        ("", "", HERE),
        ("", HERE, HERE),
        ("", "/usr/bin/python3.12", "/usr/bin/python3.12"),
        ("s3://b/env.tar.gz#env", "", "./env/bin/python"),
        ("env.tar.gz#env", HERE, "./env/bin/python"),
        ("env.tar.gz#env", "python3", "python3"),
        ("data.zip, env.tar.gz#env", "", "./env/bin/python"),
        ("a.zip#a,b.zip#b", "", HERE),
        ("env.tar.gz", "", HERE),
    ],
)
def test_what_starts_the_workers_python(archives: str, variable: str, python: str) -> None:
    assert python_for(archives, variable, HERE) == python


def test_a_named_python_wins_whoever_named_it() -> None:
    settings = {"spark.pyspark.python": "/defaults/python", "spark.archives": "env.tar.gz#env"}
    assert ship_of({}, settings.get, "python3", HERE).python == "/defaults/python"
    given = {"spark.pyspark.python": "/given/python", "spark.submit.pyFiles": "a.zip, b.egg"}
    ship = ship_of(given, settings.get, "python3", HERE)
    assert (ship.python, ship.files) == ("/given/python", ("a.zip", "b.egg"))


def test_a_token_of_spark_connect_is_never_shown() -> None:
    master = "sc://host:443/;token=s3cret;use_ssl=true"
    assert shown_master(master) == "sc://host:443"
    with pytest.raises(InvalidRequest, match=r"sc://host:443: .*leave out --spark-conf") as raised:
        check_master(master, {"spark.a": "1"})
    assert "s3cret" not in str(raised.value)
