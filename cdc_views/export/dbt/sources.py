"""The raw tables as sources of dbt: where they are on each adapter, and how fresh they have to be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.export.dbt.jinja import literal, value
from cdc_views.model.severity import Severity
from cdc_views.operations.lateness import lateness_seconds
from cdc_views.operations.raw_files import plain_name, raw_variable
from cdc_views.plan import names
from cdc_views.storage.stores import is_url

if TYPE_CHECKING:
    from cdc_views.project.models import DataTest
    from cdc_views.table import Table

SOURCE = "cdc_views_raw"
ROOT = "(var('cdc_views_root', none) or env_var('CDC_VIEWS_ROOT'))"
"""The folder of the project file, on this machine; dbt's own error names the variable where neither is set."""
_ON_SPARK = "target.type in ('spark', 'databricks')"
_PLUGIN = "cdc_views.export.dbt.duckdb_plugin"
_PERIODS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_AFTER = {Severity.ERROR: "error_after", Severity.WARNING: "warn_after"}
_WARN_DEFAULT = {"warn_after": {"count": 1, "period": "day"}}
"""Without `fresh_within`: dbt tells no age at all of a source without a limit. A warning stops no run."""


def source_of(tables: Sequence[Table]) -> dict[str, Any]:
    """Return the source with the raw tables: files from the plugin's variables on DuckDB, `delta.<path>` on Spark."""
    return {
        "name": SOURCE,
        "description": "Raw tables of cdc-views: one row per fact, append-only.",
        "schema": f"{{{{ 'delta' if {_ON_SPARK} else var('cdc_views_raw_schema', '{SOURCE}') }}}}",
        "quoting": {"identifier": True},
        "tables": [_table(table) for table in tables],
    }


def _table(table: Table) -> dict[str, Any]:
    model, factor = plain_name(table.name), table.config.replication_factor
    absent = f"cdc_views: no files of {model}; profiles.yml needs the plugin {_PLUGIN}, its project the table"
    files = f"read_parquet(coalesce(getvariable('{raw_variable(table.name)}'), [error('{absent}')]), union_by_name = true)"
    config: dict[str, Any] = {
        "loaded_at_field": names.LANDED,
        "freshness": freshness_of(table.config.tests),
        "meta": {"external_location": files, "cdc_views_table": literal(table.name)},
    }
    if table.config.dbt.tags:
        config["tags"] = list(table.config.dbt.tags)
    found: dict[str, Any] = {
        "name": model,
        "description": literal(f"Facts of {table.name} as they landed, {table.config.raw.format}."),
        "identifier": f"{{{{ {_location(table)} if {_ON_SPARK} else {value(model)} }}}}",
        "config": config,
    }
    if factor is not None:
        arguments = {"table": literal(table.name), "replication_factor": factor}
        test = {"name": f"replica_coverage_{model}", "arguments": arguments, "config": {"severity": "warn"}}
        found["data_tests"] = [{"cdc_views.replica_coverage": test}]
    return found


def freshness_of(tests: Iterable[DataTest]) -> dict[str, Any]:
    """Return the limits of a source's age: the narrowest `fresh_within` of each severity, else a warning after a day."""
    found: dict[str, Any] = {}
    limits = [(test.severity, lateness_seconds(test.fresh_within)) for test in tests if test.fresh_within is not None]
    for severity, after in _AFTER.items():
        if spans := [seconds for one, seconds in limits if one is severity]:
            # dbt counts no seconds: up to the next minute
            seconds = max(60, -(-min(spans) // 60) * 60)
            period, size = next((name, size) for name, size in _PERIODS if seconds % size == 0)
            found[after] = {"count": seconds // size, "period": period}
    return found or dict(_WARN_DEFAULT)


def _location(table: Table) -> str:
    """Return a Jinja expression of the raw table's path: relative to the project file's folder, unless the project file itself
    names an absolute one.
    """
    location, root = table.raw.location, str(table.project.root)
    written = (table.config.raw.table or "") if not table.is_external else ""
    is_named = table.catalog_name is not None or any(
        Path(path).is_absolute() for path in (written, table.project.config.warehouse)
    )
    if is_url(location) or (is_named and not Path(location).is_relative_to(root)):
        return value(location)
    return f"({ROOT} ~ {value('/' + Path(os.path.relpath(location, root)).as_posix())})"
