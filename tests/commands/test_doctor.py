"""`doctor`: what is there and what is missing, with a remedy; exit code 1 for what the project needs, and for nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.cli import main
from cdc_views.operations import doctor

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory is a project of one table, shop.orders."""
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


def examined(captured: Captured, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["doctor", "--format", "json", *arguments]) == code
    return {row["what"]: row for row in json.loads(captured.readouterr().out)}


def change(project: Path, **keys: str) -> None:
    project.write_text(json.dumps({**json.loads(project.read_text()), **keys}))


def test_a_sound_project_is_ok(capsys: Captured) -> None:
    found = examined(capsys)
    assert found["python"]["found"].startswith(sys.version.split()[0])
    assert found["shop.orders: schema"] == {
        "what": "shop.orders: schema", "health": "ok", "found": "4 columns, key id, line", "remedy": "",
    }  # fmt: skip
    assert found["shop.orders: tables"]["found"] == "nothing has landed yet"
    write_lines(Path("a.jsonl"), event(1), '{"format": "cassandra-mutation/1"}')
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders"]) == 1
    capsys.readouterr()
    assert examined(capsys)["shop.orders: tables"]["found"] == "1 changes landed; 1 events wait in quarantine"


def test_without_a_project_the_installation_alone_is_examined(capsys: Captured, project: Path) -> None:
    project.unlink()
    assert not [what for what in examined(capsys) if what.startswith(("engine", "warehouse", "shop"))]
    assert main(["doctor", "--project", "nope.yml"]) == 2


def test_an_extra_matters_only_to_a_project_that_needs_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    there = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in ("pyspark", "polars") else there(name))
    found = examined(capsys)
    assert (found["extra spark"]["health"], found["extra polars"]["health"]) == ("absent", "absent")
    change(project, engine="spark")
    found = examined(capsys, code=1)
    assert found["extra spark"] == {
        "what": "extra spark", "health": "broken", "found": "without pyspark", "remedy": "pip install 'cdc-views[spark]'",
    }  # fmt: skip
    assert found["extra polars"]["health"] == "absent"


def test_a_missing_schema_and_a_warehouse_that_is_a_file_are_named(capsys: Captured, project: Path) -> None:
    (project.parent / "schema.cql").unlink()
    Path("w").write_text("")
    change(project, warehouse="./w")
    found = examined(capsys, code=1)
    assert "schema.cql, is no file" in found["shop.orders: schema"]["found"]
    assert found["warehouse ./w"]["health"] == "broken"


def test_a_state_of_another_raw_table_is_broken(capsys: Captured, tmp_path: Path) -> None:
    write_lines(Path("a.jsonl"), event(1))
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders"]) == 0
    assert main(["materialize"]) == 0
    (tmp_path / "warehouse" / "raw").rename(tmp_path / "away")
    capsys.readouterr()
    assert examined(capsys, code=1)["shop.orders: tables"]["health"] == "broken"


@pytest.mark.parametrize("what", ["raw/shop_orders", "state", "raw/shop_orders__quarantine"])
def test_a_file_that_is_gone_is_named(capsys: Captured, tmp_path: Path, what: str) -> None:
    Path("a.jsonl").write_text(event(1) + '\n{"no": "event"}\n')
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders"]) == 1
    assert main(["materialize"]) == 0
    capsys.readouterr()
    assert examined(capsys)["shop.orders: tables"]["health"] == "ok"
    gone = next(file for file in (tmp_path / "warehouse" / what).rglob("*.parquet") if "_delta_log" not in file.parts)
    gone.unlink()
    found = examined(capsys, code=1)["shop.orders: tables"]
    assert (found["health"], gone.name in found["found"]) == ("broken", True)
    assert found["remedy"], found
