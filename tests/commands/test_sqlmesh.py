"""SQLMesh over real events: what `sqlmesh plan` makes of `cdc-views sqlmesh export` on DuckDB is what Cassandra answered."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.dbt_views import answered, check, landing, printed, real
from helpers.dialect_cases import REAL, real_table
from helpers.sqlmesh_project import SqlMeshProject

from cdc_views.api import Project
from cdc_views.cli import main
from cdc_views.export.sqlmesh import export, model_name

pytestmark = pytest.mark.slow


def write_project(folder: Path, *tables: dict[str, Any]) -> Project:
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "cases", "engine": "duckdb", "tables": list(tables)}))
    return Project.load(folder / "cdc_views.yml")


def land(project: Project, case: str, lines: list[str]) -> None:
    file = project.root / f"{case}.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    assert project.table(REAL[case]).land(file).quarantined == 0


def test_models_show_what_cassandra_answered(cassandra_cases: Path, tmp_path: Path) -> None:
    """At both instants; the second one after late events have landed, which no export was needed for."""
    project = write_project(tmp_path, *(real(cassandra_cases, case) for case in REAL))
    export(project.tables, tmp_path)
    mesh = SqlMeshProject(tmp_path)
    models = [option for name in REAL.values() for option in ("--restate-model", model_name(name))]
    cases = {name: real_table(cassandra_cases, name) for name in REAL}
    instants = {name: {which: answered(cassandra_cases, name, which) for which in ("early", "late")} for name in REAL}
    batches = {name: landing(cassandra_cases, name) for name in REAL}
    for name in REAL:
        land(project, name, batches[name][0])
    mesh.build(as_of=instants["wide3"]["early"][0])
    for name in REAL:
        for batch in batches[name][1:]:
            land(project, name, batch)
    for name, answers in instants.items():
        for now, rows in answers.values():
            assert printed(cases[name], list(json.loads(rows[0])), now=now) == rows
    for now in sorted({now for answers in instants.values() for now, _ in answers.values()}):
        asked = [name for name in REAL if now in (instants[name]["early"][0], instants[name]["late"][0])]
        mesh.build(*models, as_of=now)
        for name in asked:
            check(cases[name], mesh.rows(model_name(REAL[name])), now=now)


def event(number: int, value: str | None) -> str:
    cells = [{"column": name, "written": 1, "value": value} for name in NAMES]
    rows = [{"kind": "row", "clustering": {}, "liveness": {"written": 1}, "cells": cells if value is not None else []}]
    at = {"node": "n", "segment": 1, "position": number, "keyspace": "shop", "table": "Odd", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **at, "rows": rows})


NAMES = ["Upper", "it's", 'say "x"', "{x}", "/* no */", "-- no", "a;b", "$x", "x := 1", "select"]


def test_hostile_names_stay_data_and_audits_can_fail(tmp_path: Path) -> None:
    columns = {"id": {"type": "int", "role": "partition"}, **{name: {"type": "text"} for name in NAMES}}
    (tmp_path / "schema.yml").write_text(yaml.safe_dump({"table": "shop.Odd", "columns": columns}, sort_keys=False))
    tests = [
        {"column": "a;b", "one_of": ["x", "it's"]},
        {"name": "n", "holds": '"{x}" = "Upper"'},
        {"column": "it's", "not_null": True, "severity": "warning"},
    ]
    raw = {"format": "cassandra-mutation"}
    project = write_project(tmp_path, {"name": "shop.Odd", "schema": "schema.yml", "raw": raw, "tests": tests})
    export(project.tables, tmp_path)
    mesh, now = SqlMeshProject(tmp_path), 1_800_000_000
    (tmp_path / "one.jsonl").write_text(event(1, "it's") + "\n" + event(2, None) + "\n")
    project.table("shop.Odd").land(tmp_path / "one.jsonl", now=datetime.now(timezone.utc) - timedelta(days=40))
    mesh.build(as_of=now)  # a warning does not block
    found = mesh.rows(model_name("shop.Odd"))
    assert found.column_names == ["id", *NAMES]
    assert sorted(map(str, found.to_pylist())) == sorted(
        str({"id": number} | dict.fromkeys(NAMES, value)) for number, value in ((1, "it's"), (2, None))
    )
    (tmp_path / "two.jsonl").write_text(event(3, "a value that is not allowed") + "\n")
    project.table("shop.Odd").land(tmp_path / "two.jsonl")
    failed = mesh.plan("--restate-model", model_name("shop.Odd"), as_of=now)
    assert failed.returncode != 0
    assert "forall" in failed.stdout + failed.stderr
    assert "a value that is not allowed" not in failed.stdout + failed.stderr
    for command in (["materialize"], ["maintain", "--drop-raw-older-than", "30d"]):
        assert main([*command, "--project", str(project.file)]) == 0
    refused = mesh.plan("--restate-model", model_name("shop.Odd"), as_of=now)
    assert refused.returncode != 0
    assert "were dropped from raw, so what a SQLMesh model makes" in " ".join((refused.stdout + refused.stderr).split())
