"""The generated YAML: raw tables as sources, models with columns and tests, and exposures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cdc_views.export.dbt.jinja import literal, value
from cdc_views.export.dbt.macros import MARK
from cdc_views.export.exporting import ROLES, grain
from cdc_views.model.schema import Column
from cdc_views.model.types import LogicalType, MapOf, children
from cdc_views.operations.raw_files import plain_name, raw_variable
from cdc_views.rules.oracle import compares_as_keys
from cdc_views.storage.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc_views.table import Table

SOURCE = "cdc_views_raw"
_ON_SPARK = "target.type in ('spark', 'databricks')"
_PLUGIN = "cdc_views.export.dbt.duckdb_plugin"


def state_name(table: str) -> str:
    """Return the name of the model that keeps a table's state."""
    return f"{plain_name(table)}__state"


def sources_yaml(tables: Sequence[Table]) -> str:
    """Return the raw tables as a dbt source: files from the plugin's variables on DuckDB, `delta.<path>` on Spark."""
    schema = f"{{{{ 'delta' if {_ON_SPARK} else var('cdc_views_raw_schema', '{SOURCE}') }}}}"
    source = {
        "name": SOURCE,
        "description": "Raw tables of cdc-views: one row per fact, append-only.",
        "schema": schema,
        "quoting": {"identifier": True},
        "tables": [_source(table) for table in tables],
    }
    return _text({"version": 2, "sources": [source]})


def _source(table: Table) -> dict[str, Any]:
    model, factor = plain_name(table.name), table.config.replication_factor
    absent = f"cdc_views: no files of {model}; profiles.yml needs the plugin {_PLUGIN}, its project the table"
    files = f"read_parquet(coalesce(getvariable('{raw_variable(table.name)}'), [error('{absent}')]), union_by_name = true)"
    found: dict[str, Any] = {
        "name": model,
        "description": literal(f"Facts of {table.name} as they landed, {table.config.raw.format}."),
        "identifier": f"{{{{ {_location(table)} if {_ON_SPARK} else {value(model)} }}}}",
        "config": {"meta": {"external_location": files, "cdc_views_table": literal(table.name)}},
    }
    if factor is not None:
        arguments = {"table": literal(table.name), "replication_factor": factor}
        found["data_tests"] = [{"cdc_views.replica_coverage": {"arguments": arguments, "config": {"severity": "warn"}}}]
    return found


def _location(table: Table) -> str:
    """Return a Jinja expression of the raw table's path; `cdc_views_root` replaces the folder of the project file."""
    location = table.raw.location
    root = str(table.project.root)
    if is_url(location) or not Path(location).is_relative_to(root):
        return value(location)
    return f"(var('cdc_views_root', {value(root)}) ~ {value('/' + str(Path(location).relative_to(root)))})"


def models_yaml(tables: Sequence[Table]) -> str:
    """Return the models with their docs and tests."""
    return _text({"version": 2, "models": [model for table in tables for model in (_rows(table), _state(table))]})


def _rows(table: Table) -> dict[str, Any]:
    schema = table.schema
    unlike = _compared(table, f"ref('{state_name(table.name)}')")
    tests: list[dict[str, Any]] = [{"cdc_views.no_expired_visible": {"arguments": unlike}}]
    if compares_as_keys(schema):
        tests.insert(
            0, {"cdc_views.one_row_per_key": {"arguments": {"key": [literal(column.name) for column in schema.row_key]}}}
        )
    verdicts = {line.column: line.verdict.value for line in table.fidelity()}
    return {
        "name": plain_name(table.name),
        "description": literal(f"The latest row of every key of {table.name}. {grain(schema)}"),
        "data_tests": tests,
        "columns": [_column(column, fidelity=verdicts.get(column.name)) for column in schema.columns],
    }


def _compared(table: Table, facts: str) -> dict[str, Any]:
    columns = [literal(column.name) for column in table.schema.columns if not _has_map(column.type)]
    return {"facts": facts, "table": literal(table.name), "columns": columns}


def _column(column: Column, *, fidelity: str | None) -> dict[str, Any]:
    role = ROLES[column.role]
    meta = {"role": role, "type": literal(str(column.type))} | ({"fidelity": fidelity} if fidelity else {})
    return {
        "name": literal(column.name),
        "description": literal(f"{role}, {column.type}"),
        "quote": True,
        "config": {"meta": {"cdc_views": meta}},
    }


def _state(table: Table) -> dict[str, Any]:
    raw = f"source('{SOURCE}', '{plain_name(table.name)}')"
    return {
        "name": state_name(table.name),
        "description": literal(f"Facts of {table.name} that still matter, in the raw layout. One row per fact of the state."),
        "data_tests": [
            {"cdc_views.watermark": {"arguments": {"facts": raw}}},
            {"cdc_views.shows_the_same": {"arguments": _compared(table, raw)}},
        ],
    }


def exposures_yaml(name: str, tables: Sequence[Table]) -> str:
    """Return the exposure that reads the models: the project's own queries and views of the same tables."""
    exposure = {
        "name": f"cdc_views_{''.join(c if c.isalnum() else '_' for c in name).lower()}",
        "label": literal(f"cdc-views project {name}"),
        "type": "application",
        "description": literal(f"`cdc-views query` and `cdc-views apply` of project {name} show the same rows of these tables."),
        "depends_on": [f"ref('{plain_name(table.name)}')" for table in tables],
        "owner": {"name": literal(name)},
    }
    return _text({"version": 2, "exposures": [exposure]})


def _text(document: dict[str, Any]) -> str:
    return f"# {MARK}, do not edit\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _has_map(kind: LogicalType) -> bool:
    """Return whether a view's value may contain a MAP, which Spark cannot compare."""
    return isinstance(kind, MapOf) or any(map(_has_map, children(kind)))
