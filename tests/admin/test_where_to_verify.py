"""Whether a verification runs in threads or on Spark, if nobody chose."""

from pathlib import Path

import pytest

import lithify
from lithify.admin import verify
from lithify.admin.verify import checks_by_size, checks_on, local_checks


def test_it_starts_a_spark_only_where_that_pays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    warehouses = lithify.open(f"file://{tmp_path}/w"), lithify.open("memory://where-to-verify")
    for warehouse in warehouses:
        warehouse.create_topic("users", 1).append([lithify.Record(b"k", b"v")])
    begun: list[str] = []
    monkeypatch.setattr(verify, "spark_checks", lambda master: begun.append(master) or local_checks)
    reports = [lithify.Admin(each).verify(engine=None) for each in warehouses]
    assert begun == []
    monkeypatch.setattr(verify, "spark_pays", lambda size: size > 0)
    reports += [lithify.Admin(each).verify(engine=None) for each in warehouses]
    assert begun == ["local[*]"], "no worker could reach a store in memory"
    assert [report.findings for report in reports] == [()] * 4


def test_settings_of_sparks_choose_it() -> None:
    assert checks_on(None, None) is checks_by_size
    assert checks_on("local", None) is local_checks
    assert checks_on(None, "spark://head:7077") not in (checks_by_size, local_checks)
