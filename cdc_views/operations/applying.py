"""`plan` and `apply` of a table's view. The warehouse keeps the SQL that was last applied; `plan` compares with it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cdc_views.engines.plugin import engine_plugin
from cdc_views.engines.warehouses import Estimate
from cdc_views.errors import ConfigError
from cdc_views.landing import create_raw, exists, open_raw
from cdc_views.operations.context import TableContext
from cdc_views.operations.generating import definition_of, view_sql
from cdc_views.operations.ingest import adapted, check_raw_is_whole
from cdc_views.operations.known_raw import remember
from cdc_views.project import TableConfig
from cdc_views.storage.relation import RawTable


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What `apply` would do for one table, and what a read of it costs.

    `change` is create, replace or none; `diff` is the unified diff of the view's SQL; `estimate` is the cost of a read, None if
    the engine does not know; `is_remote`: the raw table is in a remote warehouse.
    """

    table: str
    view: str
    change: str
    raw_version: int | None
    raw_rows: int
    raw_bytes: int
    diff: str = ""
    schema: tuple[str, ...] = ()
    estimate: Estimate | None = None
    is_remote: bool = False


def apply_view(table: TableContext, *, engine: str | None = None) -> str:
    """Create or replace the view in the engine's catalog; returns the statement that ran. Creates a missing raw table. A view
    over files waits for the first landing (`refresh_view`); then the statement is empty.
    """
    _check_view_name(table)
    adapted(table)
    if table.project.is_remote:
        with table.project.engine(engine) as remote:
            return remote.apply(definition_of(table))
    raw = create_raw(table.raw, format_name=table.format.name)
    remember(table)
    definition = definition_of(table, strategy=table.config.view.strategy)
    with table.project.engine(engine) as opened:
        names_files = engine_plugin(opened.name).views_name_files
        if not names_files:
            check_raw_is_whole(table, what="a view of raw alone")
        waits = names_files and not raw.file_uris()
        statement = "" if waits else opened.apply(definition)
    record = _applied_file(table)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("" if waits else _planned(table), encoding="utf-8")
    return statement


def refresh_view(table: TableContext) -> bool:
    """Apply the view again if its SQL names the raw files of the last apply; returns whether it did."""
    is_stale = table.project.engine_plugin.views_name_files and _applied_file(table).exists()
    if is_stale:
        apply_view(table)
    return is_stale


def plan_view(table: TableContext) -> TablePlan:
    """Return what `apply` would change, and how much data a read has to scan."""
    adapted(table)
    if table.project.is_remote:
        definition = definition_of(table)
        with table.project.remote() as opened:
            found = opened.plan(definition)
        view = f"{definition.schema}.{definition.name}"
        known = (found.change, None, found.raw_rows, found.raw_bytes, found.diff, found.schema, found.estimate)
        return TablePlan(table.name, view, *known, is_remote=True)
    record = _applied_file(table)
    before = record.read_text(encoding="utf-8") if record.exists() else ""
    after = _planned(table)
    names = (f"{table.name} (applied)", f"{table.name} (planned)")
    diff = "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))
    change = "none" if before == after else "replace" if before else "create"
    version, rows, size = _extent(table.raw)
    return TablePlan(table.name, _view_name(table.config), change, version, rows, size, diff)


def _planned(table: TableContext) -> str:
    return view_sql(table, table.project.config.engine, strategy=table.config.view.strategy)


def _applied_file(table: TableContext) -> Path:
    return table.project.warehouse / "_cdc_views/applied" / f"{table.config.slug}.sql"


def _extent(raw: RawTable) -> tuple[int | None, int, int]:
    if not exists(raw):
        return None, 0, 0
    table = open_raw(raw)
    files = pa.table(table.get_add_actions(flatten=True))
    sizes = {name: files.column(name).to_pylist() for name in ("num_records", "size_bytes")}
    return table.version(), sum(count or 0 for count in sizes["num_records"]), sum(sizes["size_bytes"])


def _view_name(config: TableConfig) -> str:
    return f"{config.keyspace}.{config.view_name}"


def _check_view_name(table: TableContext) -> None:
    mine = _view_name(table.config)
    for other in table.project.config.tables:
        theirs = _view_name(other)
        if other.name != table.name and theirs.casefold() == mine.casefold():
            raise ConfigError(
                f"{table.project.file}: views {mine!r} and {theirs!r} differ in case alone, which engines do not tell apart; "
                f"give one another name (`view: {{name: …}}` of {table.name})"
            )
