"""DuckDB in this process, over the Parquet files of a Delta snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import duckdb
import pyarrow as pa

from cdc_views.engines.base import (
    Engine,
    EventsRead,
    Read,
    Sources,
    StatementRead,
    StatementRows,
    StateWrite,
    ValueForm,
    ViewDefinition,
    Written,
    ask_of,
)
from cdc_views.engines.duckdb.connections import connect, connect_locked, in_its_words, streamed, with_stores
from cdc_views.engines.duckdb.masks import mask_of
from cdc_views.engines.duckdb.state import write_serving, write_state
from cdc_views.engines.duckdb.statements import run_over
from cdc_views.engines.duckdb.tables import files_clause, snapshot_of_sources, tables_of
from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.engines.footers import with_footers
from cdc_views.engines.serving import ServingWrite, held_fields
from cdc_views.engines.snapshot import REGISTERED, Snapshot, snapshot_of
from cdc_views.errors import EngineError
from cdc_views.landing.external.table import ExternalTable
from cdc_views.plan.build import Ask, of_raw, output_names
from cdc_views.plan.nodes import Node
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.rewrites import lowered
from cdc_views.sql import ViewSql, generate, query_sql
from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.writing import identifier
from cdc_views.sql.render import Renderer
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.places import Place, on_this_machine
from cdc_views.storage.shown_relation import casts_of


class DuckDbEngine(Engine):
    """An engine without a server. Reads run in memory; `apply` opens `database`, the file of the views."""

    name = "duckdb"

    def __init__(self, database: Place | None = None) -> None:
        """Only `apply` creates and opens the file, because DuckDB locks it."""
        self._database = database
        self._open: duckdb.DuckDBPyConnection | None = None
        self._locked: tuple[frozenset[str], duckdb.DuckDBPyConnection] | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection, for callers' own SQL, which must not contain a user's text."""
        if self._open is None:
            self._open = connect()
        return self._open

    def read(self, read: Read) -> pa.Table:
        snapshot = pinned(read)
        return _rows(self._connection_of(read, snapshot), sql_over(snapshot, read, is_pretty=False), snapshot)

    def batches(self, read: Read) -> Iterator[pa.RecordBatch]:
        snapshot = pinned(read)
        connection, sql = self._connection_of(read, snapshot), sql_over(snapshot, read, is_pretty=False)
        if snapshot.arrow is not None:
            connection.register(snapshot.arrow_name, snapshot.arrow)
        if read.form is ValueForm.HELD:
            sql = _held(read, sql)
        yield from streamed(connection, sql)

    def _connection_of(self, read: Read, snapshot: Snapshot) -> duckdb.DuckDBPyConnection:
        # a user's condition runs on a connection that can read only the files of this read
        return self.connection if read.where is None else self._reading(snapshot, read.sources)

    def run(self, sql: str, snapshot: Snapshot) -> pa.Table:
        """Return the rows of `sql`, which must not contain a user's condition; raises `EngineError` with DuckDB's message."""
        return _rows(self.connection, sql, snapshot)

    def _reading(self, snapshot: Snapshot, sources: Sources | None) -> duckdb.DuckDBPyConnection:
        """The locked connection to the files of a read; kept, because the next read often has the same files."""
        files = files_read(snapshot, sources)
        if self._locked is None or self._locked[0] != files:
            self._close_locked()
            self._locked = files, connect_locked(sorted(files))
        return self._locked[1]

    def sql(self, read: Read) -> str:
        return sql_over(pinned(read), read)

    def run_statement(self, asked: StatementRead) -> StatementRows:
        pins = {table: pinned(read) for table, read in asked.reads.items()}
        tables, files = dict[str, str](), set[str]()
        for number, (table, read) in enumerate(asked.reads.items()):
            pins[table] = replace(pins[table], arrow_name=f"{REGISTERED}_{number}")
            tables[table] = shown_sql(pins[table], read)
            files |= files_read(pins[table], read.sources)
        return run_over(asked, tables, connect_locked(sorted(files)), [pin for pin in pins.values() if pin.arrow is not None])

    def write_state(self, write: StateWrite) -> Written:
        return write_state(self.connection, write, tables=self._tables(write.sources))

    def write_serving(self, write: ServingWrite) -> None:
        write_serving(self.connection, write, tables=self._tables(write.sources))

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        # a plan may hold conditions of data tests, so it runs like `read`
        snapshot = snapshot_of_sources(sources)
        tables = tables_of(sources.raw, sources, snapshot, drops_empty=True)
        renderer = Renderer(dialect("duckdb"), table=tables[Source.ALL], tables=tables)
        return _rows(self._reading(snapshot, sources), renderer.sql(lowered(plan)), snapshot)

    def _tables(self, sources: Sources) -> dict[Source, str]:
        snapshot = snapshot_of_sources(sources)
        if snapshot.arrow is not None:
            self.connection.register(snapshot.arrow_name, snapshot.arrow)
        return tables_of(sources.raw, sources, snapshot, drops_empty=True)

    def apply(self, view: ViewDefinition) -> str:
        # the view reads the files of the current snapshot; its comment names the version
        snapshot = None if view.events is not None else pinned(view)
        if snapshot is not None and snapshot.arrow is not None:
            raise EngineError(f"{view.raw.location} holds no files that a view could name; land events, or use `query`")
        statement = view_statement(view, snapshot)
        with _for_views(self, self._database) as connection:
            try:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(view.schema).sql(dialect='duckdb')}")
                with_stores(connection, statement).execute(statement)
            except duckdb.Error as error:
                raise EngineError(f"DuckDB cannot create view {view.schema}.{view.name}: {error}") from error
        return statement

    def stale_rows(self, view: ViewDefinition) -> int | None:
        planned = replace(view, name=f"{view.name}__cdc_views_planned")
        statement = view_statement(planned)
        applied, now = (f"{quoted(view.schema)}.{quoted(name)}" for name in (view.name, planned.name))
        counted = (
            f"SELECT count(*) FROM ((FROM {applied} EXCEPT ALL FROM {now}) UNION ALL (FROM {now} EXCEPT ALL FROM {applied}))"
        )
        with _for_views(self, self._database) as connection, in_its_words():
            with_stores(connection, statement).execute("BEGIN").execute(statement)
            try:
                if not _has_columns_of(connection, view, planned):
                    counted = f"SELECT greatest(count(*), 1) FROM {now}"
                row = connection.execute(counted).fetchone()
            finally:
                connection.execute("ROLLBACK")
        return int(row[0]) if row else None

    def close(self) -> None:
        self._close_locked()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _close_locked(self) -> None:
        if self._locked is not None:
            self._locked[1].close()
            self._locked = None


def _has_columns_of(connection: duckdb.DuckDBPyConnection, view: ViewDefinition, planned: ViewDefinition) -> bool:
    """Whether the catalog's view is there, and has the columns of another one."""
    asked = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = ? AND table_name = ? ORDER BY column_index"
    there, wanted = (connection.execute(asked, [one.schema, one.name]).fetchall() for one in (view, planned))
    return there == wanted


def _held(read: Read, rows: str) -> str:
    """Return SQL for the rows of a read in form `HELD`, given those of its plan."""
    columns = (f"CAST({quoted(output)} AS {type_text(f.type)}) AS {quoted(f.name)}" for output, f in held_fields(read))
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS computed"


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, snapshot: Snapshot) -> pa.Table:
    with in_its_words():
        if snapshot.arrow is not None:
            connection.register(snapshot.arrow_name, snapshot.arrow)
        return with_stores(connection, sql).sql(sql).to_arrow_table()


@contextmanager
def _for_views(engine: DuckDbEngine, database: Place | None) -> Iterator[duckdb.DuckDBPyConnection]:
    if database is None:
        yield engine.connection
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with on_this_machine(database) as file:
        connection = connect(str(file))
        try:
            yield connection
        finally:
            connection.close()


def view_statement(view: ViewDefinition, snapshot: Snapshot | None = None) -> str:
    """Return the CREATE VIEW statement over the current files of the raw table, of state and tail, or of an external table."""
    if view.events is not None:
        return _events_statement(view, view.events)
    snapshot = snapshot or pinned(view)
    tables = tables_of(view.raw, view.sources, snapshot, for_view=True)
    is_of_raw = view.sources is None or view.sources.is_raw
    # a view over other files is another text, so what these tell holds
    ask = with_footers(of_raw(Ask(view.raw.relation)), snapshot.files) if is_of_raw else None
    return generate(
        view.raw.relation,
        dialect_name="duckdb",
        strategy=view.strategy.value,
        view=ViewSql(view.schema, view.name),
        table=tables[Source.ALL],
        note=f"names the files of {_files_of(view, snapshot)}: run `cdc-views apply` after each landing",
        tables=tables,
        split=None if view.sources is None else view.sources.split(),
        whole=None if ask is None else ask.events,
        style=view.style,
    )


def _files_of(view: ViewDefinition, snapshot: Snapshot) -> str:
    """Which files the text of a view names."""
    sources = view.sources
    if sources is None or not sources.state:
        return f"raw table {view.raw.location} at Delta version {snapshot.version}"
    newer = " and newer ones of" if sources.parts.has(Source.FRESH) else ", which has all of"
    state = f"state {sources.state} at Delta version {sources.state_version}"
    return f"{state}{newer} raw table {view.raw.location} at version {sources.raw_version}"


def _events_statement(view: ViewDefinition, events: EventsRead) -> str:
    table = ExternalTable.open(events.location)
    version = table.delta.version()
    return generate(
        view.raw.relation,
        dialect_name="duckdb",
        strategy=view.strategy.value,
        view=ViewSql(view.schema, view.name),
        table=files_clause(tuple(paths_by_name(table.delta).values())),
        note=f"reads the events themselves, {events.location} at Delta version {version}; run `cdc-views apply` to follow them",
        events=events.plan,
        style=view.style,
    )


def pinned(asked: Read | ViewDefinition, *, version: int | None = None) -> Snapshot:
    """Return the snapshot to read: of raw at a version (None: the newest), or of state and tail. Raises `EngineError`."""
    return snapshot_of(asked.raw, version=version) if asked.sources is None else snapshot_of_sources(asked.sources)


def sql_over(snapshot: Snapshot, read: Read, *, is_pretty: bool = True) -> str:
    """Return the SQL text of the plan of a read over the files of its snapshot."""
    tables, ask = tables_of(read.raw, read.sources, snapshot), with_footers(ask_of(read), snapshot.files)
    return query_sql(
        ask,
        dialect_name="duckdb",
        strategy=read.strategy.value,
        table=tables[Source.ALL],
        tables=tables,
        is_pretty=is_pretty,
        holds_any_field=read.form is not ValueForm.HELD,
    )


def shown_sql(snapshot: Snapshot, read: Read) -> str:
    """Return the SQL of a read's rows over its snapshot as a view shows them: the user's names, the project file's types."""
    casts, columns = casts_of(read.raw.relation), []
    for user, stored in output_names(ask_of(read)):
        value = quoted(stored)
        value = f"CAST({value} AS {casts[user].sql(dialect='duckdb')})" if user in casts else value
        columns.append(f"{value} AS {quoted(user)}")
    return f"SELECT {', '.join(columns)} FROM ({sql_over(snapshot, read, is_pretty=False)}) AS merged"


def files_read(snapshot: Snapshot, sources: Sources | None) -> frozenset[str]:
    """Return every file that `sql_over` may name: those of facts, and the mask of hidden rows."""
    of_sources = () if sources is None else (*sources.parts.of(Part).paths, mask_of(sources))
    return frozenset(filter(None, (*snapshot.files, *of_sources)))
