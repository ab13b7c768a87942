"""An exported project keeps the rules of dbt-project-evaluator 1.0 that are about it; each test names them. The package itself
comes from dbt's hub, so the rules are read here from the manifest, as it does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import table
from helpers.dbt_project import DbtProject

pytestmark = pytest.mark.heavy

CQL = """\
CREATE TABLE shop.orders (id int, line int, at timestamp, state text, PRIMARY KEY (id, line));
CREATE TABLE shop.customers (id uuid PRIMARY KEY, name text);
CREATE TABLE shop.carts (id int, line int, note text static, PRIMARY KEY (id, line));
"""
NAMES = ("shop.orders", "shop.customers", "shop.carts")
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """What dbt makes of the export of three tables: a key of two columns, of one, and with static columns."""
    folder = tmp_path_factory.mktemp("dbt")
    (folder / "shop.cql").write_text(CQL)
    as_table = {"dbt": {"materialized": "table"}}
    tables = [table(name, "shop.cql", "cassandra-mutation", replication_factor=3) | as_table for name in NAMES]
    dbt = DbtProject.make(folder, *tables)
    dbt.run("parse")
    found: Manifest = json.loads((folder / "target" / "manifest.json").read_text("utf-8"))
    return found


def of_kind(manifest: Manifest, kind: str) -> list[Manifest]:
    nodes = [*manifest["nodes"].values(), *manifest["sources"].values(), *manifest["exposures"].values()]
    found = [node for node in nodes if node["resource_type"] == kind]
    assert found
    return found


def checked_on(manifest: Manifest, node: Manifest) -> list[Manifest]:
    return [test for test in of_kind(manifest, "test") if test["attached_node"] == node["unique_id"]]


def parents(manifest: Manifest, node: Manifest, kind: str) -> list[str]:
    return [name for name in manifest["parent_map"][node["unique_id"]] if name.startswith(f"{kind}.")]


def test_every_model_has_a_tested_key(manifest: Manifest) -> None:
    """fct_missing_primary_key_tests: `unique` and `not_null` of dbt on one column, or both on the model; fct_test_coverage."""
    for model in of_kind(manifest, "model"):
        by_column: dict[str | None, set[str]] = {}
        for test in checked_on(manifest, model):
            by_column.setdefault(test["column_name"], set()).update(test["depends_on"]["macros"])
        assert any({"macro.dbt.test_unique", "macro.dbt.test_not_null"} <= macros for macros in by_column.values()), model["name"]


def test_every_source_has_freshness(manifest: Manifest) -> None:
    """fct_sources_without_freshness."""
    for source in of_kind(manifest, "source"):
        assert source["freshness"]["warn_after"]["count"], source["name"]
        assert source["loaded_at_field"] == "_landed_at"


def test_everything_is_described(manifest: Manifest) -> None:
    """fct_undocumented_models, fct_documentation_coverage, fct_undocumented_sources, fct_undocumented_source_tables,
    fct_undocumented_public_models.
    """
    for node in [*of_kind(manifest, "model"), *of_kind(manifest, "source")]:
        assert node["description"], node["name"]
    for source in of_kind(manifest, "source"):
        assert source["source_description"]
    for model in of_kind(manifest, "model"):
        assert model["access"] != "public" or all(column["description"] for column in model["columns"].values())


def test_public_models_have_contracts_and_exposures_read_public_tables(manifest: Manifest) -> None:
    """fct_public_models_without_contract, fct_exposures_dependent_on_private_models, fct_exposure_parents_materializations (with
    `materialized: table`; by default the rows are a view, since what expires has to leave).
    """
    public = {model["unique_id"]: model for model in of_kind(manifest, "model") if model["access"] == "public"}
    assert len(public) == len(NAMES)
    for model in public.values():
        assert model["contract"]["enforced"] is True
        assert all(column["data_type"] for column in model["columns"].values())
    for exposure in of_kind(manifest, "exposure"):
        assert set(exposure["depends_on"]["nodes"]) == set(public)
        assert all(public[name]["config"]["materialized"] == "table" for name in exposure["depends_on"]["nodes"])


def test_models_read_sources_and_models_by_reference(manifest: Manifest) -> None:
    """fct_hard_coded_references, fct_root_models, fct_direct_join_to_source, fct_multiple_sources_joined, fct_too_many_joins."""
    for model in of_kind(manifest, "model"):
        assert not re.search(r"(?i)\b(from|join)\s+[`\"'\[]?\w", model["raw_code"]), model["name"]
        assert len(parents(manifest, model, "source")) + len(parents(manifest, model, "model")) == 1, model["name"]


def test_each_source_is_read_by_one_model(manifest: Manifest) -> None:
    """fct_unused_sources, fct_source_fanout, fct_duplicate_sources."""
    for source in of_kind(manifest, "source"):
        readers = [name for name in manifest["child_map"][source["unique_id"]] if name.startswith("model.")]
        assert len(readers) == 1, source["name"]
    places = [(source["database"], source["schema"], source["identifier"]) for source in of_kind(manifest, "source")]
    assert len(set(places)) == len(places)


def test_files_stand_where_their_kind_does(manifest: Manifest) -> None:
    """fct_source_directories: a source under a folder of its name; fct_test_directories: tests beside their models.

    fct_model_naming_conventions is the project's to configure: a model is called as its table, and the prefixes are a variable.
    """
    for source in of_kind(manifest, "source"):
        assert source["source_name"] in str(Path(source["original_file_path"]).parent)
    folders = {model["unique_id"]: Path(model["original_file_path"]).parent for model in of_kind(manifest, "model")}
    for test in of_kind(manifest, "test"):
        assert folders.get(test["attached_node"]) in (None, Path(test["original_file_path"]).parent), test["name"]


def test_names_of_tests_are_short(manifest: Manifest) -> None:
    for test in of_kind(manifest, "test"):
        assert len(test["name"]) <= 50, test["name"]
