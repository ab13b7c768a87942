"""Contracts of others: which versions are read, and which object stands for a table; and what is promised of keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from helpers.projects import add

from cdc_views.api import Project, Table
from cdc_views.export.contracts import Contract, compare, contract_of, contract_yaml, read_contract
from cdc_views.landing import create_raw
from cdc_views.model.types import EMPTY
from cdc_views.rules.cells import Liveness
from cdc_views.rules.facts import Fact, FactKind


def table_of(folder: Path, columns: str) -> Table:
    """The table shop.orders of a project in a folder."""
    (folder / "schema.cql").write_text(f"CREATE TABLE shop.orders ({columns});")
    entry = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    (folder / "cdc_views.yml").write_text(yaml.safe_dump({"name": "shop", "engine": "duckdb", "tables": [entry]}))
    return Project.load(folder / "cdc_views.yml").table("shop.orders")


def contract(folder: Path, version: str, *names: str) -> Contract:
    """A contract with the names of its objects, and nothing else that need not be there."""
    document: dict[str, Any] = {"apiVersion": version, "kind": "DataContract", "id": "x", "version": "1", "status": "active"}
    (folder / "contract.yaml").write_text(contract_yaml({**document, "schema": [{"name": name} for name in names]}), "utf-8")
    return read_contract(folder / "contract.yaml")


@pytest.mark.parametrize("version", ["v3.0.0", "v3.0.1", "v3.0.2", "v3.1.0", "v3.2.0"])
def test_versions_that_are_read(tmp_path: Path, version: str) -> None:
    table = table_of(tmp_path, "id int PRIMARY KEY, state text")
    assert compare(contract(tmp_path, version, "shop.orders"), [table], is_selection=True) == []
    assert contract_of([table], version="1")["apiVersion"] == "v3.2.0"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["shop.orders"], "shop.orders"),
        (["orders"], "orders"),
        (["latest"], "latest"),
        (["orders", "latest"], None),
        (["orders", "shop.orders"], "shop.orders"),
        (["lines"], None),
    ],
)
def test_a_table_is_found_by_its_full_name_else_its_own_or_its_views(tmp_path: Path, names: list[str], found: str | None) -> None:
    table = table_of(tmp_path, "id int PRIMARY KEY, state text")
    view = table.config.view.model_copy(update={"name": "latest"})
    renamed = replace(table, config=table.config.model_copy(update={"view": view}))
    part = contract(tmp_path, "v3.2.0", *names).object_of(renamed)
    assert (part and part.name) == found


@pytest.mark.parametrize(
    ("columns", "required", "is_unique"),
    [
        ("id int, c int, v int, PRIMARY KEY (id, c)", ["id", "c"], True),
        ("id int, c int, s int static, v int, PRIMARY KEY (id, c)", ["id"], True),
        ("id float, c int, v int, PRIMARY KEY (id, c)", ["id", "c"], False),
    ],
)
def test_what_a_contract_promises_of_keys(tmp_path: Path, columns: str, required: list[str], is_unique: bool) -> None:
    """A row that shows only statics has no clustering columns; SQL compares floats otherwise than the source."""
    (part,) = contract_of([table_of(tmp_path, columns)], version="1")["schema"]
    assert [one["name"] for one in part["properties"] if one.get("required")] == required
    assert ("duplicateValues" in str(part["quality"])) is is_unique
    assert ("unique" in part["properties"][0]) is False


def test_a_key_part_of_0_bytes_is_null_in_a_required_column(tmp_path: Path) -> None:
    table = table_of(tmp_path, "id int, c int, v int, PRIMARY KEY (id, c)")
    create_raw(table.raw, format_name=table.format.name)
    add(table, [Fact(FactKind.ROW, (EMPTY,), (1,), liveness=Liveness(1))])
    table.apply()
    with duckdb.connect(str(tmp_path / "warehouse" / "views.duckdb"), read_only=True) as connection:
        assert connection.sql("SELECT id, c FROM shop.orders").fetchall() == [(None, 1)]
    (part,) = contract_of([table], version="1")["schema"]
    assert part["properties"][0]["required"]
