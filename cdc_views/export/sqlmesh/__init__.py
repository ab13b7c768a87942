"""The SQLMesh part of a cdc-views project: a model per table, rendered from the same plan as its view."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cdc_views.engines.duckdb.types import literal, quoted
from cdc_views.errors import UnsupportedError
from cdc_views.export.exporting import ROLES, Exported, grain, mark_of, write_files
from cdc_views.model.naming import physical_name
from cdc_views.model.severity import Severity
from cdc_views.operations.raw_files import plain_name, raw_variable
from cdc_views.plan.build import Ask, of_raw
from cdc_views.quality.conditions import condition_of, never_null
from cdc_views.rules.oracle import compares_as_keys
from cdc_views.sql import rows_sql

if TYPE_CHECKING:
    from cdc_views.table import Table


_MODEL = """\
/* {mark}, do not edit */
MODEL (
  name {name},
  kind FULL,{cron}
  dialect 'duckdb,normalization_strategy=case_sensitive',
  description {description},
  grain ({grain}),
  column_descriptions (
    {columns}
  ),
  audits (
    {audits}
  ),
  optimize_query FALSE
);

@cdc_views_read({table});

{query}
"""
_TEMPLATE = re.compile(r"\{[{%#]")
_CLOCK = "CAST(GETVARIABLE('cdc_views_now') AS BIGINT)"


def model_name(table: str) -> str:
    """Return SQLMesh's name of a table's model: a plain schema and name.

    >>> model_name("shop.orders"), model_name("shop.OrderItems")
    ('shop.orders', 'shop.x__4frder_49tems')
    """
    schema, dot, name = table.partition(".")
    return f"{physical_name(schema)}.{physical_name(name)}" if dot else physical_name(table)


def model_sql(table: Table, *, mark: str) -> str:
    """Return the model of a table's rows; `mark` names the command that wrote it. Raises `UnsupportedError` if DuckDB's SQL
    cannot show the table, or SQLMesh would misread a column's name.
    """
    schema = table.schema
    raw = f"READ_PARQUET(GETVARIABLE('{raw_variable(table.name)}'), union_by_name = TRUE)"
    query = rows_sql(
        of_raw(Ask(table.relation)), dialect_name="duckdb", strategy=table.config.view.strategy.value, table=raw, clock=_CLOCK
    )
    schedule = table.config.materialize.schedule
    described = [f"{quoted(column.name)} = {literal(f'{ROLES[column.role]}, {column.type}')}" for column in schema.columns]
    model = _MODEL.format(
        mark=mark,
        name=model_name(table.name),
        cron=f"\n  cron {literal(schedule)}," if schedule else "",
        description=literal(f"The latest row of every key of {table.name}. {grain(schema)}"),
        grain=", ".join(quoted(column.name) for column in schema.row_key),
        columns=",\n    ".join(described),
        audits=",\n    ".join(_audits(table)),
        table=literal(table.name),
        query=query,
    )
    _check(table.name, query=query, model=model)
    return model


def _audits(table: Table) -> Iterator[str]:
    schema = table.schema
    keys = [quoted(column.name) for column in schema.row_key]
    if compares_as_keys(schema):
        yield f"unique_combination_of_columns(columns := ({', '.join(keys)}))"
    never = [quoted(column.name) for column in schema.row_key if never_null(schema, column)]
    yield f"not_null(columns := ({', '.join(never)}))"
    for test in table.config.tests:
        condition = condition_of(test)
        if condition is not None:
            blocks = test.severity is Severity.ERROR
            yield f"forall{'' if blocks else '_non_blocking'}(criteria := (({condition.sql()})))"


def _check(table: str, *, query: str, model: str) -> None:
    """Refuse texts that SQLMesh would interpret, which it does even inside quotes, and repeatedly."""
    found = ["@"] if "@" in query else _TEMPLATE.findall(model)
    if found:
        raise UnsupportedError(
            f"{table} has a name or a test with `{found[0]}` in it, which SQLMesh would read as a variable or a template",
            remedy="leave the table out with --select",
        )


COMMAND = "cdc-views sqlmesh export"
FOLDERS = ("models/cdc_views",)
CONFIG, MACROS = "config.yaml", "macros/cdc_views.py"
_IMPORT = "from cdc_views.export.sqlmesh.macros import cdc_views_read  # noqa: F401\n"


def export(tables: Sequence[Table], out: Path) -> Exported:
    """Write a model per table, their macro, and a missing `config.yaml` into the SQLMesh project `out`; one that is there
    stays, with what the user changed. Raises `UsageError` if a file cannot be written or is somebody else's, `UnsupportedError`
    if DuckDB's SQL cannot show a table.
    """
    texts = files_of(tables, out)
    if (out / CONFIG).exists():
        del texts[CONFIG]
    return write_files(out, texts, command=COMMAND, folders=FOLDERS)


def files_of(tables: Sequence[Table], out: Path) -> dict[str, str]:
    """Return the text of every file by its path in the SQLMesh project `out`; it is the same on every run."""
    mark = mark_of(COMMAND)
    models = {f"{FOLDERS[0]}/{plain_name(table.name)}.sql": model_sql(table, mark=mark) for table in tables}
    return {CONFIG: f"# {mark}\n{_config(tables[0], out)}", MACROS: f"# {mark}, do not edit\n{_IMPORT}", **models}


def _config(table: Table, out: Path) -> str:
    """Return a config that runs, with its own database; the name sqlmesh would clash with SQLMesh's schema."""
    project = table.project
    connection = {"type": "duckdb", "database": "cdc_views.duckdb", "connector_config": {"TimeZone": "UTC"}}
    found = {
        "gateways": {"local": {"connection": connection}},
        "default_gateway": "local",
        "model_defaults": {"dialect": "duckdb", "start": "2020-01-01"},
        "variables": {"cdc_views_project": Path(os.path.relpath(project.file, out)).as_posix()},
        "disable_anonymized_analytics": True,
    }
    return yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
