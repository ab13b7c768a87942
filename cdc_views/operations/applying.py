"""`plan` and `apply` of a table's view, and when it is applied again. The warehouse keeps the SQL that was last applied; `plan`
compares with it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from enum import Flag, auto

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.engines.base import Engine, ViewDefinition
from cdc_views.engines.catalogs import NoViewsError
from cdc_views.engines.plugin import engine_plugin
from cdc_views.engines.warehouses import Estimate
from cdc_views.errors import CheckFailedError, ConfigError
from cdc_views.landing import create_raw, exists, open_raw
from cdc_views.landing.external.table import ExternalTable
from cdc_views.operations.applied import applied_file, followed_by, note_applied, note_followed
from cdc_views.operations.catalogs import begun, is_registered, register_tables, registered
from cdc_views.operations.context import TableContext
from cdc_views.operations.generating import definition_of, definition_on, direct_definition, statement_of
from cdc_views.operations.ingest import adapted, check_raw_is_whole
from cdc_views.operations.known_raw import remember
from cdc_views.operations.sources import followed_state
from cdc_views.operations.view_names import view_of
from cdc_views.project import TableConfig
from cdc_views.rules.codec.times import datetime_text
from cdc_views.state.bound import missed
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


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` did for one table.

    Attributes:
        statement: The statement that ran; empty if the view waits for the first landing.
        tables: The names under which the project's catalog has the state and the serving table.
        note: Why there is no view; empty if there is one.
    """

    statement: str
    tables: tuple[str, ...] = ()
    note: str = ""


class Changed(Flag):
    """What changed below a view that was applied."""

    RAW = auto()
    """Facts landed."""
    STATE = auto()
    """The state covers more of raw, or another generation of it is read."""
    READING = auto()
    """The view of an external table may no longer read its events themselves, or may now."""


def apply_view(table: TableContext, *, engine: str | None = None) -> Applied:
    """Create or replace the view in the engine's catalog, and register state and serving table if the project names a catalog.

    Creates a missing raw table. A view over files waits for the first landing (`refresh_view`). A catalog that takes no views
    has the tables all the same. Raises `UsageError` if somebody else's table or view has a name.
    """
    _check_view_name(table)
    begun(table)
    direct = direct_definition(table, engine_plugin(engine) if engine else table.project.engine_plugin)
    if direct is None:
        adapted(table)
    with table.project.engine(engine) as opened:
        if table.project.is_remote:
            return Applied(opened.apply(direct or definition_of(table)))
        return _apply_on(opened, table)


def _apply_on(engine: Engine, table: TableContext) -> Applied:
    plugin = engine_plugin(engine.name)
    if (direct := direct_definition(table, plugin)) is not None:
        done = _made(engine, direct)
        note_followed(table, None)
        note_applied(table, _planned(table))
        return _with_tables(done, engine, table)
    raw = create_raw(table.raw, format_name=table.format.name)
    remember(table)
    definition = definition_on(table, plugin)
    if not (plugin.views_name_files or definition.followed):
        check_raw_is_whole(table, what="a view of raw alone")
    waits = plugin.views_name_files and not raw.file_uris()
    done = Applied("") if waits else _made(engine, definition)
    note_followed(table, definition.followed)
    note_applied(table, "" if waits else _planned(table))
    return _with_tables(done, engine, table)


def _made(engine: Engine, view: ViewDefinition) -> Applied:
    try:
        return Applied(engine.apply(view))
    except NoViewsError as error:
        return Applied("", note=str(error))


def _with_tables(done: Applied, engine: Engine, table: TableContext) -> Applied:
    plugin = engine_plugin(engine.name)
    register_tables(engine, table, plugin)
    return replace(done, tables=tuple(registered(table)) if plugin.catalog(table.project.config) else ())


def refresh_view(table: TableContext, changed: Changed = Changed.RAW, *, engine: Engine | None = None) -> bool:
    """Apply the view again if it was applied and what changed calls for it; returns whether it did.

    A view over files misses what landed since. A view that follows the state is right either way: it then reads a shorter tail.
    `engine` is an open one; it is used if it is the project's.
    """
    plugin, record = table.project.engine_plugin, applied_file(table)
    is_stale = (Changed.RAW in changed and plugin.views_name_files) or (Changed.READING in changed and table.is_external)
    if Changed.STATE in changed and plugin.views_read_states and record.exists():
        is_stale = is_stale or followed_state(table) != followed_by(table) or not is_registered(table, plugin)
    if not (is_stale and record.exists()):
        return False
    if engine is not None and engine.name == plugin.name:
        _apply_on(engine, table)
    else:
        apply_view(table)
    return True


def missed_by_view(table: TableContext, *, through: int | None) -> CheckFailedError | None:
    """Return the error for facts, up to a version of raw that the state covers, that the applied view lacked until now; None if
    there are none. Ask before the view is applied again.
    """
    known = followed_by(table) if table.project.engine_plugin.views_read_states else None
    if known is None or known.reads.since is None or through is None:
        return None
    found = missed(table.raw, known, through=through)
    if found is None:
        return None
    landed, bound = (f"{datetime_text(at)}Z" for at in (found.landed, known.reads.since))
    lacking = "" if found.committed is None else f"from {datetime_text(found.committed)}Z "
    return CheckFailedError(
        f"{table.name}: {lacking}until now its view lacked facts that are stamped {landed}. Version {found.version} of raw "
        f"committed them, when the view took all that landed before {bound} to be in the state. State and view have them now. "
        f"Set `materialize: {{overlap: …}}`, now {table.config.materialize.overlap}, above the longest time from a fact's "
        "landing time to its commit, plus the difference between landers' clocks"
    )


def plan_view(table: TableContext) -> TablePlan:
    """Return what `apply` would change, and how much data a read has to scan."""
    direct = direct_definition(table, table.project.engine_plugin)
    if direct is None:
        adapted(table)
    if table.project.is_remote:
        definition = direct or definition_of(table)
        with table.project.remote() as opened:
            found = opened.plan(definition)
        view = f"{definition.schema}.{definition.name}"
        known = (found.change, None, found.raw_rows, found.raw_bytes, found.diff, found.schema, found.estimate)
        return TablePlan(table.name, view, *known, is_remote=True)
    record = applied_file(table)
    before = record.read_text(encoding="utf-8") if record.exists() else ""
    after = _planned(table)
    names = (f"{table.name} (applied)", f"{table.name} (planned)")
    diff = "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))
    change = "none" if before == after else "replace" if before else "create"
    version, rows, size = _extent_of(ExternalTable.open(table.location).delta) if direct else _extent(table.raw)
    return TablePlan(table.name, view_of(table, table.project.engine_plugin), change, version, rows, size, diff)


def _planned(table: TableContext) -> str:
    """The statement that `apply` would run, but for a bound that only moved on: that is no change of the view."""
    engine, known = table.project.engine_plugin, followed_by(table)
    view = definition_of(table)
    if view.followed and known and view.followed.reads.overlap == known.reads.overlap:
        view = replace(view, followed=replace(view.followed, reads=replace(view.followed.reads, since=known.reads.since)))
    return statement_of(table, view, table.project.config.engine, engine=engine)


def _extent(raw: RawTable) -> tuple[int | None, int, int]:
    if not exists(raw):
        return None, 0, 0
    return _extent_of(open_raw(raw))


def _extent_of(table: DeltaTable) -> tuple[int, int, int]:
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
