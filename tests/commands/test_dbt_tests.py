"""The generic tests of the dbt package: each passes on what is right and fails on what was made wrong."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.command_line import table
from helpers.dbt_project import DbtProject

pytestmark = pytest.mark.heavy

CQL = "CREATE TABLE shop.orders (id int, line int, state text, PRIMARY KEY (id, line));\n"
BEFORE, EXPIRES, AFTER = 1_800_000_000, 1_800_000_060, 1_800_000_120
"""A clock at which everything lives, the second at which order 1 expires, a later clock."""
NODES = ("n1", "n2", "n3")
TESTS = {
    "unique_key_of_shop__orders": "unique",
    "not_null_key_of_shop__orders": "not_null",
    "not_null_shop__orders__id": "not_null",
    "not_null_shop__orders__line": "not_null",
    "no_expired_visible_shop__orders": "no_expired_visible",
    "unique_key_of_shop__orders__state": "unique of state",
    "not_null_key_of_shop__orders__state": "not_null of state",
    "watermark_shop__orders__state": "watermark",
    "shows_the_same_shop__orders__state": "shows_the_same",
    "replica_coverage_shop__orders": "replica_coverage",
}
"""All tests of an exported table with a key of two columns, and what each is about."""


def event(number: int, *, state: str = "open", node: str = "n1", written: int = 0, **life: int) -> str:
    """One mutation that inserts order `number`."""
    cell: dict[str, Any] = {"written": written or number, **life}
    return json.dumps(
        {
            "format": "cassandra-mutation/1",
            "node": node,
            "segment": 1,
            "position": written or number,
            "keyspace": "shop",
            "table": "orders",
            "partition": {"id": number},
            "rows": [
                {
                    "kind": "row",
                    "clustering": {"line": 0},
                    "liveness": cell,
                    "cells": [{"column": "state", "value": state, **cell}],
                }
            ],
        }
    )


def land(dbt: DbtProject, *lines: str, late_by: timedelta = timedelta(0)) -> None:
    file = dbt.folder / "events.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    dbt.project.table("shop.orders").land(file, now=datetime.now(timezone.utc) - late_by)


@pytest.fixture
def dbt(tmp_path: Path) -> DbtProject:
    """Two orders, the first of which expires, on all three nodes; their rows are a table."""
    (tmp_path / "shop.cql").write_text(CQL)
    made = DbtProject.make(tmp_path, table("shop.orders", "shop.cql", "cassandra-mutation", replication_factor=3))
    config = tmp_path / "dbt_project.yml"
    as_table = "models:\n  cdc_views_integration_tests:\n    cdc_views:\n      shop__orders: {+materialized: table}\n"
    config.write_text(config.read_text() + as_table)
    raw, stored = "source('cdc_views_raw', 'shop__orders'), 'shop.orders'", "{{ config(materialized='table') }}"
    models = {
        "once": f"{stored} {{{{ cdc_views.dedupe_replicas({raw}) }}}}",
        "shown_once": "{{ cdc_views.latest_row(ref('once'), 'shop.orders') }}",
        "live": f"{stored} {{{{ cdc_views.live_rows({raw}) }}}}",
    }
    for name, text in models.items():
        (tmp_path / "models" / f"{name}.sql").write_text(text)
    for node in NODES:
        land(made, event(1, node=node, ttl=60, expires_at=EXPIRES), event(2, node=node))
    return made


def failed(dbt: DbtProject, now: int = BEFORE) -> set[str]:
    """The tests that do not pass, by what they are about."""
    statuses = dbt.run("test", cdc_views_as_of=now)
    assert set(statuses) == set(TESTS), statuses
    bad = {name: status for name, status in statuses.items() if not status.startswith("pass")}
    assert not [status for status in bad.values() if status.startswith("error")], bad
    return {TESTS[name] for name in bad}


def ids_of(dbt: DbtProject) -> list[int]:
    return list(dbt.rows("SELECT id FROM shop__orders ORDER BY id").column("id").to_pylist())


def corrupt(dbt: DbtProject, sql: str) -> None:
    with duckdb.connect(str(dbt.folder / "dbt.duckdb")) as connection:
        connection.execute(sql)


@pytest.mark.slow
def test_each_generic_test_fails_on_what_it_is_about(dbt: DbtProject) -> None:
    dbt.build(cdc_views_as_of=BEFORE)
    assert failed(dbt) == set()
    assert failed(dbt, AFTER) == {"no_expired_visible"}, "order 1 has expired since the table was built"
    assert ids_of(dbt) == [1, 2]
    dbt.build(cdc_views_as_of=AFTER)
    assert ids_of(dbt) == [2]
    dbt.build("--full-refresh", cdc_views_as_of=BEFORE)
    corrupt(dbt, "INSERT INTO shop__orders SELECT * FROM shop__orders WHERE id = 2")
    assert failed(dbt) == {"unique"}
    corrupt(dbt, "DELETE FROM shop__orders WHERE id = 2; INSERT INTO shop__orders SELECT NULL, line, state FROM shop__orders")
    assert failed(dbt) == {"not_null", "no_expired_visible"}
    corrupt(dbt, "INSERT INTO shop__orders__state SELECT * FROM shop__orders__state WHERE id = 2")
    assert "unique of state" in failed(dbt)
    corrupt(dbt, "DELETE FROM shop__orders__state WHERE id = 2")
    assert failed(dbt) >= {"shows_the_same"}
    land(dbt, event(3))
    assert failed(dbt) >= {"watermark", "replica_coverage", "shows_the_same"}
    dbt.build("--full-refresh", "--exclude", "test_name:replica_coverage", cdc_views_as_of=AFTER)
    assert failed(dbt, AFTER) == {"replica_coverage"}, "order 3 is on one node, and order 1 has left"


@pytest.mark.slow
def test_what_lands_with_a_clock_behind_is_found_and_repaired(dbt: DbtProject) -> None:
    """A fact that lands with a clock before the watermark less the overlap is not read again; the test says so."""
    without_copies = ("--exclude", "test_name:replica_coverage")
    dbt.build(cdc_views_as_of=BEFORE)
    land(dbt, event(4), late_by=timedelta(minutes=50))
    dbt.build(*without_copies, cdc_views_as_of=BEFORE)
    land(dbt, event(5), late_by=timedelta(minutes=80))
    assert dbt.run("run", cdc_views_as_of=BEFORE)
    assert failed(dbt) == {"shows_the_same", "replica_coverage"}
    dbt.build(*without_copies, "--full-refresh", cdc_views_as_of=BEFORE)
    assert ids_of(dbt) == [1, 2, 4, 5]
    land(dbt, event(6), late_by=timedelta(hours=3))
    dbt.build(*without_copies, cdc_views_as_of=BEFORE, cdc_views_overlap_hours=4)
    assert ids_of(dbt) == [1, 2, 4, 5, 6]
    dbt.project.table("shop.orders").forget({"id": 2, "line": 0})
    dbt.run("run", cdc_views_as_of=BEFORE)
    assert ids_of(dbt) == [1, 2, 4, 5, 6], "dbt's tables keep a forgotten key"
    dbt.build(*without_copies, "--full-refresh", cdc_views_as_of=BEFORE)
    assert ids_of(dbt) == [1, 4, 5, 6]


@pytest.mark.slow
def test_an_instant_is_seconds_or_iso_8601(dbt: DbtProject) -> None:
    instants = {"'2027-01-15T08:00:00Z'": [1, 2], "'2027-01-15 09:02:00.9+01:00'": [2], EXPIRES: [2], EXPIRES - 1: [1, 2]}
    for n, instant in enumerate(instants):
        model = f"{{{{ cdc_views.as_of(ref('shop__orders__state'), 'shop.orders', {instant}) }}}}"
        (dbt.folder / "models" / f"at_{n}.sql").write_text(model)
    dbt.build(command="run")
    for n, (instant, ids) in enumerate(instants.items()):
        assert dbt.rows(f"SELECT id FROM at_{n} ORDER BY id").column("id").to_pylist() == ids, instant
    with pytest.raises(Exception, match="instant 'soon' is neither epoch seconds nor ISO 8601"):
        dbt.run("parse", cdc_views_as_of="soon")


@pytest.mark.slow
def test_facts_once_and_keys_alone_show_the_same_rows(dbt: DbtProject) -> None:
    dbt.build(cdc_views_as_of=AFTER)
    assert dbt.rows("SELECT id, _replicas FROM once ORDER BY id").to_pylist() == [
        {"id": 1, "_replicas": 3},
        {"id": 2, "_replicas": 3},
    ]
    rows = [{"id": 2, "line": 0, "state": "open"}]
    assert dbt.rows("SELECT * FROM shop__orders").to_pylist() == rows
    assert dbt.rows("SELECT * FROM shown_once").to_pylist() == rows
    assert dbt.rows("SELECT * FROM live").to_pylist() == [{"id": 2, "line": 0}]


@pytest.mark.slow
def test_a_schema_that_gained_a_column_asks_for_a_full_refresh(dbt: DbtProject) -> None:
    from cdc_views.export.dbt import export

    dbt.build(cdc_views_as_of=BEFORE)
    (dbt.folder / "shop.cql").write_text(CQL.replace("state text", "state text, note text"))
    export("cases", dbt.project.tables, dbt.folder)
    statuses = dbt.run("run", cdc_views_as_of=BEFORE)
    assert "has no column 'note' of shop.orders; build it anew with --full-refresh" in statuses["shop__orders__state"]
    dbt.build("--full-refresh", cdc_views_as_of=BEFORE)
    assert dbt.rows("SELECT * FROM shop__orders").column_names == ["id", "line", "state", "note"]


@pytest.mark.slow
def test_docs_tell_types_roles_and_who_reads(dbt: DbtProject) -> None:
    dbt.build(cdc_views_as_of=BEFORE)
    dbt.run("docs", "generate")
    target = dbt.folder / "target"
    catalog, manifest = (json.loads((target / f"{name}.json").read_text()) for name in ("catalog", "manifest"))
    name = "model.cdc_views_integration_tests.shop__orders"
    assert list(catalog["nodes"][name]["columns"]) == ["id", "line", "state"]
    column = manifest["nodes"][name]["columns"]["line"]
    assert column["description"] == "clustering key, int"
    assert column["config"]["meta"]["cdc_views"] == {"role": "clustering key", "type": "int", "fidelity": "EXACT"}
    (exposure,) = manifest["exposures"].values()
    assert exposure["depends_on"]["nodes"] == [name]


@pytest.mark.slow
def test_a_profile_without_the_plugin_or_its_project_says_so(dbt: DbtProject) -> None:
    profiles = dbt.folder / "profiles.yml"
    right = profiles.read_text()
    profiles.write_text(right.replace("plugins:", "attach: []\n      nothing:"))
    statuses = dbt.run("run", "--select", "shop__orders__state")
    assert "profiles.yml needs the plugin cdc_views.export.dbt.duckdb_plugin" in statuses["shop__orders__state"]
    profiles.write_text(right)
    (dbt.folder / "cdc_views.yml").rename(dbt.folder / "other.yml")
    with pytest.raises(Exception, match=r"cdc_views: .*: no such project file; make one with"):
        dbt.run("run")


def test_a_project_without_an_export_says_what_to_run(dbt: DbtProject) -> None:
    for path in (dbt.folder / "macros" / "cdc_views").iterdir():
        path.unlink()
    with pytest.raises(Exception, match="run `cdc-views dbt export"):
        dbt.run("parse")
