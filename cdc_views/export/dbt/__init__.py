"""The dbt part of a cdc-views project: macros, models, tests and docs, generated from the same plans. The hand-written package
`dbt_compat` dispatches to the files that `export` writes. `duckdb_plugin` shows dbt-duckdb the raw tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import ConfigError
from cdc_views.export.dbt.jinja import value
from cdc_views.export.dbt.macros import COMMAND, MARK, commented, registry, table_macros
from cdc_views.export.dbt.properties import exposures_yaml, models_yaml, sources_yaml, state_name
from cdc_views.export.dbt.sources import SOURCE
from cdc_views.export.exporting import Exported, write_files
from cdc_views.operations.ingest import check_raw_is_whole
from cdc_views.operations.raw_files import plain_name
from cdc_views.project.dbt_options import DbtMaterialization

if TYPE_CHECKING:
    from cdc_views.table import Table

FOLDERS = ("models/cdc_views", "macros/cdc_views", f"models/cdc_views/{SOURCE}")
"""Our folders in the dbt project; other files in them stay. A source has a folder of its name, as dbt-project-evaluator asks
(fct_source_directories).
"""
_STATE = """\
{{#- {title}: {what}; {mark}, do not edit; plan {plan} -#}}
{{{{ config(**cdc_views.state_config({keep})) }}}}
{{{{ cdc_views.state(source({source}, {model}), {table}{kept}) }}}}
"""
_ROWS = """\
{{#- {title}: the latest row of every key; {mark}, do not edit; plan {plan} -#}}
{{{{ cdc_views.latest_row(ref({state}), {table}) }}}}
"""


def export(project: str, tables: Sequence[Table], out: Path) -> Exported:
    """Write the dbt part of project `project` into the dbt project `out`, all rendered before the first file is written. Raises
    `UsageError` if a file cannot be written, or lacks our mark and so is somebody else's, or if events were dropped from raw: on
    Spark, dbt itself would not notice.
    """
    for table in tables:
        check_raw_is_whole(table, what="what a dbt model makes of raw alone")
    return write_files(out, files_of(project, tables), command=COMMAND, folders=FOLDERS)


def files_of(name: str, tables: Sequence[Table]) -> dict[str, str]:
    """Return the text of every file by its path in the dbt project; it is the same on every run."""
    check_names_differ(table.name for table in tables)
    models, macros, raw = FOLDERS
    texts = {
        f"{macros}/cdc_views__tables.sql": registry(table.relation for table in tables),
        f"{raw}/_cdc_views__sources.yml": sources_yaml(tables),
        f"{models}/_cdc_views__models.yml": models_yaml(tables),
        f"{models}/_cdc_views__exposures.yml": exposures_yaml(name, tables),
    }
    for table in tables:
        macro_text = table_macros(table.relation, strategy=table.config.view.strategy.value)
        texts[f"{macros}/{plain_name(table.name)}.sql"] = macro_text
        for model, text in _models_of(table, macros=macro_text).items():
            texts[f"{models}/{model}.sql"] = text
    return texts


def _models_of(table: Table, *, macros: str) -> dict[str, str]:
    """Return the text of each model by its name: one keeps the table's state, one shows its latest rows. The texts contain the
    digest of `macros`, because dbt does not see which generated macro a model calls: `state:modified` compares texts.
    """
    name, keeps = table.name, table.config.dbt.materialized is not DbtMaterialization.VIEW
    places = {
        "title": commented(name),
        "what": "the facts that still matter" if keeps else "the facts as they landed",
        "mark": MARK,
        "plan": sha256(macros.encode()).hexdigest()[:12],
        "source": value(SOURCE),
        "model": value(plain_name(name)),
        "state": value(state_name(name)),
        "table": value(name),
        # a project whose package is older builds as before, unless it says `view`
        "keep": "" if keeps else "keep=false",
        "kept": "" if keeps else ", keep=false",
    }
    return {state_name(name): _STATE.format(**places), plain_name(name): _ROWS.format(**places)}


def check_names_differ(tables: Iterable[str]) -> None:
    """Raise `ConfigError` if two tables would have the same model."""
    seen: dict[str, str] = {}
    for table in tables:
        for name in (plain_name(table), state_name(table)):
            other = seen.setdefault(name, table)
            if other != table:
                raise ConfigError(f"{other} and {table} would both have the dbt model {name}; export one of them with --select")


__all__ = ["Exported", "check_names_differ", "export", "files_of"]
