"""The generated YAML: raw tables as sources, models with columns and tests, and exposures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cdc_views.export.dbt.columns import CONTRACT, columns_of, has_map, key_tests, state_key_tests, takes_contract
from cdc_views.export.dbt.jinja import literal
from cdc_views.export.dbt.macros import MARK
from cdc_views.export.dbt.sources import SOURCE, source_of
from cdc_views.export.exporting import grain, sealed, sentence
from cdc_views.operations.raw_files import plain_name
from cdc_views.project.dbt_options import DbtConfig, DbtMaterialization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc_views.table import Table

_OF_MODELS = """\
# What is yours to say of these models (description, columns, tags, group, materialized) stands in cdc_views.yml, under `dbt:` of
# a table. dbt takes one entry a model, so no second file can add to these. An export does not replace a file that was edited.
"""
_OF_SOURCES = """\
# On Spark, dbt's variable `cdc_views_root`, or CDC_VIEWS_ROOT in the environment, tells the folder of cdc_views.yml.
# The limits of freshness are those of `fresh_within` in cdc_views.yml.
"""


class _Plain(yaml.SafeDumper):
    """Writes a value that occurs twice twice: people read these files."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def state_name(table: str) -> str:
    """Return the name of the model that keeps a table's state."""
    return f"{plain_name(table)}__state"


def sources_yaml(tables: Sequence[Table]) -> str:
    """Return the raw tables as a dbt source, with the limits of their age."""
    return _text({"version": 2, "sources": [source_of(tables)]}, about=_OF_SOURCES)


def models_yaml(tables: Sequence[Table]) -> str:
    """Return the models with their docs and tests."""
    return _text(
        {"version": 2, "models": [model for table in tables for model in (_rows(table), _state(table))]}, about=_OF_MODELS
    )


def _rows(table: Table) -> dict[str, Any]:
    schema, name, of_dbt = table.schema, plain_name(table.name), table.config.dbt
    expired = {"name": f"no_expired_visible_{name}", "arguments": _compared(table, f"ref('{state_name(table.name)}')")}
    config: dict[str, Any] = {"access": "public"}
    if of_dbt.materialized is not DbtMaterialization.INCREMENTAL:
        config["materialized"] = of_dbt.materialized.value
    if takes_contract(schema):
        config["contract"] = {"enforced": CONTRACT}
    return {
        "name": name,
        "description": of_dbt.description
        or literal(f"{sentence(schema.description)}The latest row of every key of {table.name}. {grain(schema)}"),
        "config": config | _labels(of_dbt),
        "data_tests": [*key_tests(schema), {"cdc_views.no_expired_visible": expired}],
        "columns": columns_of(table),
    }


def _labels(of_dbt: DbtConfig) -> dict[str, Any]:
    tags = {"tags": list(of_dbt.tags)} if of_dbt.tags else {}
    return tags | ({"group": of_dbt.group} if of_dbt.group else {})


def _compared(table: Table, facts: str) -> dict[str, Any]:
    columns = [literal(column.name) for column in table.schema.columns if not has_map(column.type)]
    return {"facts": facts, "table": literal(table.name), "columns": columns}


def _state(table: Table) -> dict[str, Any]:
    raw, name, of_dbt = f"source('{SOURCE}', '{plain_name(table.name)}')", state_name(table.name), table.config.dbt
    keeps = of_dbt.materialized is not DbtMaterialization.VIEW
    tests = state_key_tests(table.schema, table.relation.arrow_schema().names) if keeps else []
    what = "Facts that still matter, in the raw layout. One row per fact of the state." if keeps else "Facts as they landed."
    found = {
        "name": name,
        "description": literal(f"{table.name}: {what}"),
        "config": _labels(of_dbt),
        "data_tests": [
            *tests,
            {"cdc_views.watermark": {"name": f"watermark_{name}", "arguments": {"facts": raw}}},
            {"cdc_views.shows_the_same": {"name": f"shows_the_same_{name}", "arguments": _compared(table, raw)}},
        ],
    }
    return {key: part for key, part in found.items() if part != {}}


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


def _text(document: dict[str, Any], *, about: str = "") -> str:
    body = about + yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)
    return sealed(f"# {MARK}, do not edit", body)
