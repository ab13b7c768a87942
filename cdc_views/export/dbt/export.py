"""`cdc-views dbt export`: the files of a dbt project that come from a cdc-views project."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.export.dbt.jinja import value
from cdc_views.export.dbt.macros import COMMAND, MARK, commented, registry, table_macros
from cdc_views.export.dbt.naming import SOURCE, check_names_differ, state_name
from cdc_views.export.dbt.properties import exposures_yaml, models_yaml, sources_yaml
from cdc_views.export.exporting import Exported, write_files
from cdc_views.operations.raw_files import plain_name

if TYPE_CHECKING:
    from cdc_views.table import Table

FOLDERS = ("models/cdc_views", "macros/cdc_views")
"""The folders of the dbt project that are ours; other files in them stay."""
_STATE = """\
{{#- {title}: the facts that still matter; {mark}, do not edit; plan {plan} -#}}
{{{{ config(**cdc_views.state_config()) }}}}
{{{{ cdc_views.state(source({source}, {model}), {table}) }}}}
"""
_ROWS = """\
{{#- {title}: the latest row of every key; {mark}, do not edit; plan {plan} -#}}
{{{{ cdc_views.latest_row(ref({state}), {table}) }}}}
"""


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
        texts[f"{macros}/{plain_name(table.name)}.sql"] = macro_text
        for model, text in _models_of(table.name, macros=macro_text).items():
            texts[f"{models}/{model}.sql"] = text
    return texts


def _models_of(table: str, *, macros: str) -> dict[str, str]:
    """The text of each model by its name: one that keeps the table's state, and one of its latest rows over that.

    The digest of `macros`, the text they come down to, is in them: dbt does not see which generated macro a model calls, so
    `state:modified` goes by the text.
    """
    places = {
        "title": commented(table),
        "mark": MARK,
        "plan": sha256(macros.encode()).hexdigest()[:12],
        "source": value(SOURCE),
        "model": value(plain_name(table)),
        "state": value(state_name(table)),
        "table": value(table),
    }
    return {state_name(table): _STATE.format(**places), plain_name(table): _ROWS.format(**places)}
