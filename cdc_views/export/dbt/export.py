"""`cdc-views dbt export`: the files of a dbt project that come from a cdc-views project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.export.dbt.macros import COMMAND, registry, table_macros
from cdc_views.export.dbt.models import models_of
from cdc_views.export.dbt.naming import check_names_differ, dbt_name
from cdc_views.export.dbt.properties import exposures_yaml, models_yaml, sources_yaml
from cdc_views.export.exporting import Exported, write_files

if TYPE_CHECKING:
    from cdc_views.table import Table

FOLDERS = ("models/cdc_views", "macros/cdc_views")
"""The folders of the dbt project that are ours; other files in them stay."""


def export(project: str, tables: Sequence[Table], out: Path) -> Exported:
    """Write the dbt part of the project called `project` into the dbt project `out`.

    Everything is rendered before the first file is written. A file without our mark is somebody's own.

    Raises:
        UsageError: A file cannot be written, or is somebody's own.
    """
    return write_files(out, files_of(project, tables), command=COMMAND, folders=FOLDERS)


def files_of(name: str, tables: Sequence[Table]) -> dict[str, str]:
    """Return the text of every file by its path inside the dbt project, the same on every run."""
    check_names_differ(table.name for table in tables)
    models, macros = FOLDERS
    texts = {
        f"{macros}/cdc_views__tables.sql": registry(table.relation for table in tables),
        f"{models}/_cdc_views__sources.yml": sources_yaml(tables),
        f"{models}/_cdc_views__models.yml": models_yaml(tables),
        f"{models}/_cdc_views__exposures.yml": exposures_yaml(name, tables),
    }
    for table in tables:
        macro_text = table_macros(table.relation, strategy=table.config.view.strategy.value)
        texts[f"{macros}/{dbt_name(table.name)}.sql"] = macro_text
        for model, text in models_of(table.name, macros=macro_text).items():
            texts[f"{models}/{model}.sql"] = text
    return texts
