"""`cdc-views sqlmesh export`: the files of a SQLMesh project that come from a cdc-views project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cdc_views.export.exporting import Exported, is_marked, mark_of, write_files
from cdc_views.export.sqlmesh.models import model_sql
from cdc_views.operations.raw_files import plain_name

if TYPE_CHECKING:
    from cdc_views.table import Table

COMMAND = "cdc-views sqlmesh export"
FOLDERS = ("models/cdc_views",)
CONFIG, MACROS = "config.yaml", "macros/cdc_views.py"
_IMPORT = "from cdc_views.export.sqlmesh.macros import cdc_views_read  # noqa: F401\n"


def export(tables: Sequence[Table], out: Path) -> Exported:
    """Write a model per table, the macro they call, and `config.yaml` where there is none, into the SQLMesh project `out`.

    Raises:
        UsageError: A file cannot be written, or is somebody's own; a `config.yaml` of somebody's stays.
        UnsupportedError: DuckDB's SQL cannot show a table.
    """
    texts = files_of(tables, out)
    if (out / CONFIG).exists() and not is_marked(out / CONFIG, mark_of(COMMAND)):
        del texts[CONFIG]
    return write_files(out, texts, command=COMMAND, folders=FOLDERS)


def files_of(tables: Sequence[Table], out: Path) -> dict[str, str]:
    """Return the text of every file by its path inside the SQLMesh project `out`, the same on every run."""
    mark = mark_of(COMMAND)
    models = {f"{FOLDERS[0]}/{plain_name(table.name)}.sql": model_sql(table, mark=mark) for table in tables}
    return {CONFIG: f"# {mark}\n{_config(tables[0], out)}", MACROS: f"# {mark}, do not edit\n{_IMPORT}", **models}


def _config(table: Table, out: Path) -> str:
    """A project that runs, on a database of its own; one called sqlmesh would clash with the schema that SQLMesh keeps."""
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
