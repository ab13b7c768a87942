"""Where everything of a table is: its raw table, its state, its serving table, its forgotten keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import ConfigError
from cdc_views.generations import Generations
from cdc_views.project.paths import is_url, unfit_letter
from cdc_views.relation import RawTable

if TYPE_CHECKING:
    from cdc_views.landing.forgotten import Forgotten
    from cdc_views.table import Table

_DERIVED, _STATE, _SERVING, _FORGOTTEN = "derived", "state", "serving", "forgotten"


def location_of(table: Table) -> str:
    """Return the path or URI of the raw table that the project file names."""
    if table.project.is_remote:
        return _remote(table, table.config.raw_table)
    path = table.config.raw_table
    return path if is_url(path) else _local(table, str(table.project.root / path))


def raw_of(table: Table) -> RawTable:
    """Return the raw table in the canonical layout; of a found table the derived one, in a place of its own."""
    if not table.is_found:
        return RawTable(location_of(table), table.relation)
    name = table.config.slug
    if table.project.is_remote:
        if (derived := _remote(table, name)) == location_of(table):
            raise ConfigError(
                f"{table.project.file}: {table.name}: `raw.table` names {derived.partition('://')[2]}, where cdc-views keeps "
                "what it derives; name the table that events land in, or another `bigquery.raw_dataset`"
            )
        return RawTable(derived, table.relation)
    return RawTable(_local(table, str(table.project.warehouse / _DERIVED / name / name)), table.relation)


def generations_of(table: Table) -> Generations:
    """Return the generations of the table's state."""
    name = table.config.slug
    return Generations(Path(_local(table, str(table.project.warehouse / _STATE / name))))


def state_location(table: Table) -> str:
    """Return where the state that is read is, or will be."""
    generations = generations_of(table)
    return generations.location(generations.current)


def serving_location(table: Table) -> str | None:
    """Return where the serving table is, or is to be; None where the project file asks for none."""
    name = table.config.serving_name
    return None if name is None else _local(table, str(table.project.warehouse / _SERVING / name), what="serving table")


def forgotten_of(table: Table) -> Forgotten:
    """Return the table's forgotten keys, whose older events do not land; none where the warehouse has none."""
    from cdc_views.landing.forgotten import Forgotten

    return Forgotten.read(forgotten_file(table))


def forgotten_file(table: Table) -> Path:
    """Return the file of the table's forgotten keys."""
    name = table.config.slug
    return table.project.warehouse / _FORGOTTEN / f"{name}.jsonl"


def _remote(table: Table, name: str) -> str:
    """Where BigQuery has the raw table of that name."""
    from cdc_views.engines.warehouses import SCHEME
    from cdc_views.project.bigquery import place_of

    config = table.project.config
    return SCHEME + place_of(config.warehouse, config.bigquery).raw_table(name)


def _local(table: Table, path: str, *, what: str = "raw table") -> str:
    if letter := unfit_letter(path):
        raise ConfigError(f"{path!r}: Delta cannot keep a table under a path that holds {letter!r}; choose another path")
    if Path(path).is_file():
        raise ConfigError(f"{table.project.file}: the {what} of {table.name}, {path}, is a file; name a folder")
    return path
