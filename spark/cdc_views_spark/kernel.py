"""The strategy `kernel`: Spark reads the facts, and DuckDB's SQL makes rows of them in Spark's tasks.

The SQL is that of the engine DuckDB for the same read, over one Arrow table of facts. A row depends on the facts of its partition
and of the whole table alone. So each task gets all facts of some partitions, and every fact about the whole table (rule S6).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import duckdb
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_views.engines.base import Read, Sources, ask_of
from cdc_views.engines.duckdb.connections import connect_locked, in_its_words, locked_settings, with_stores
from cdc_views.engines.duckdb.types import quoted
from cdc_views.engines.serving import for_form
from cdc_views.engines.state_plan import in_time
from cdc_views.errors import EngineError
from cdc_views.model.strategy import Strategy
from cdc_views.plan import names
from cdc_views.plan.build import planned
from cdc_views.plan.nodes import Node, Ordered, Scan, in_order
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.walk import columns_used
from cdc_views.rules.facts import FactKind
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import RawTable
from cdc_views.storage.stores import given_options, use_options
from cdc_views_spark.compile import ordered
from cdc_views_spark.reading import OF_PART, parts_of

FACTS = "facts"
"""The Arrow table in a task."""
_TASK = "_task"
"""Of a fact: the number of a task that needs it."""
_DUCKDB_ERROR = re.compile(r"duckdb\.(\w+): (.*)")

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Kernel:
    """One read as DuckDB's SQL over `FACTS`."""

    read: Read

    @cached_property
    def _plan(self) -> Node:
        limit = None if self.read.limit is None else self.read.limit + self.read.offset
        ask = ask_of(replace(self.read, limit=limit, offset=0))  # what to leave out shows once the tasks' rows are together
        return planned(ask, strategy=Strategy.AUTO.value, joins_fully=DuckDb.joins_fully)

    @cached_property
    def _tables(self) -> dict[Source, str]:
        return {} if self.read.sources is None else tables_of(self.read.sources)

    def sql(self, *, is_pretty: bool = False) -> str:
        """Return the text."""
        dialect = for_form(DuckDb(), self.read.form)
        return Renderer(dialect, table=FACTS, tables=self._tables).sql(self._plan, is_pretty=is_pretty)

    def dataframe(self, facts: DataFrame, *, tasks: int) -> DataFrame:
        """Return the lazy rows; raises `EngineError` for SQL that DuckDB cannot bind."""
        sql, used = self.sql(), self._used()
        schema = _schema_of(sql, self.read.raw, used)
        kept = facts.select(*(f"`{name}`" for name in used))
        spread = kept.coalesce(1) if tasks == 1 else self._spread(kept, tasks)
        rows = spread.mapInArrow(in_task(sql, schema), from_arrow_schema(schema, prefer_timestamp_ntz=True))
        if isinstance(self._plan, Ordered) and (tasks > 1 or self.read.offset):
            return ordered(rows, replace(self._plan, limit=self.read.limit, offset=self.read.offset))
        return rows

    def _used(self) -> list[str]:
        """The columns that the SQL reads, in order."""
        layout = [*self.read.raw.relation.arrow_schema().names, *([OF_PART] if self._tables else [])]
        if self._tables and self.read.sources is not None and self.read.sources.late_by is not None:
            return layout
        scans = [node for node in in_order(self._plan) if isinstance(node, Scan)]
        read = {column.name for scan in scans for value in scan.expressions() for column in columns_used(value)}
        return [name for name in layout if name in {*read, *self._keys(), OF_PART}]

    def _keys(self) -> tuple[str, ...]:
        """The columns that say which tasks need a fact."""
        relation = self.read.raw.relation
        kind = (names.KIND,) if relation.is_whole_row else ()
        return (*kind, *map(names.identity, relation.schema.partition))

    def _spread(self, facts: DataFrame, tasks: int) -> DataFrame:
        """The facts by task. Two numbers may meet in one task: a fact that stands twice in it changes nothing (rule M1)."""
        keys = [f"`{names.identity(column)}`" for column in self.read.raw.relation.schema.partition]
        if not self.read.raw.relation.is_whole_row:
            return facts.repartition(tasks, *keys)
        number = f"array(pmod(hash({', '.join(keys)}), {tasks}))"
        number = f"IF(`{names.KIND}` = '{FactKind.TABLE.value}', sequence(0, {tasks - 1}), {number})"
        return facts.selectExpr("*", f"explode({number}) AS {_TASK}").repartition(tasks, F.col(_TASK)).drop(_TASK)


def tables_of(sources: Sources) -> dict[Source, str]:
    """Return FROM clauses of the parts within `FACTS`, without late facts, as `engines.duckdb.tables.tables_of` does."""
    if sources.is_raw and sources.late_by is None:
        return {}
    there = parts_of(sources)
    found = {source: _of_parts(source.value) for source in Source if there.intersection(source.value)}
    found.setdefault(Source.OTHERS, found[Source.ALL])
    plan = in_time(sources)
    if plan is None:
        return found
    counted = Renderer(DuckDb(), table=found[Source.TAIL], tables=found).sql(plan)
    columns = ", ".join(map(quoted, sources.raw.relation.arrow_schema().names))
    for source in found:
        if Part.TAIL in source.value and source is not Source.TAIL:
            others = _of_parts(part for part in source.value if part is not Part.TAIL)
            found[source] = f"(SELECT {columns} FROM {others} UNION ALL ({counted})) AS in_time"
    return found


def _of_parts(parts: Iterable[Part]) -> str:
    listed = ", ".join(f"'{part.value}'" for part in parts)
    return f"(SELECT * FROM {FACTS} WHERE {OF_PART} IN ({listed})) AS parts"


def _schema_of(sql: str, raw: RawTable, used: list[str]) -> pa.Schema:
    """The columns of the SQL's rows, from DuckDB here; so an error in a condition shows before Spark runs anything."""
    known = raw.relation.arrow_schema()
    fields = [known.field(name) if name in known.names else pa.field(name, pa.string()) for name in used]
    with in_its_words(), connect_locked(()) as connection:
        connection.register(FACTS, pa.schema(fields).empty_table())
        return connection.sql(sql).to_arrow_table().schema


def in_task(
    sql: str, schema: pa.Schema, *, files: Iterable[str] = (), threads: int = 1
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function that tasks run: `sql` over a task's rows as `FACTS`, and over `files`, the only ones it can open."""
    return in_tasks([(locked_settings(files, threads=threads), sql)], schema, over_facts=True)


def in_tasks(
    texts: Sequence[tuple[tuple[str, ...], str]], schema: pa.Schema, *, over_facts: bool = False
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function that tasks run: the text of each number that a task gets, after its settings.

    If `over_facts`, a task gets facts, and runs the one text over them as `FACTS`. A function in a function is sent by value, so
    executors need DuckDB, not cdc-views, unless they read files of a store.
    """
    table, stores = FACTS, {} if over_facts else given_options()

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        import duckdb
        import pyarrow as pa

        given = list(batches)
        numbers = [0] * bool(given) if over_facts else [n for batch in given for n in batch.column(0).to_pylist()]
        for number in numbers:
            settings, sql = texts[number]
            with duckdb.connect() as connection:
                if any("://" in setting for setting in settings):
                    _read_stores(connection, stores, settings)
                for setting in settings:
                    connection.execute(setting)
                if over_facts:
                    connection.register(table, pa.Table.from_batches(given))
                # batch by batch: a task need not hold all its rows
                for found in connection.sql(sql).to_arrow_reader(10_000):
                    is_cast = not found.schema.equals(schema)
                    yield from pa.Table.from_batches([found]).cast(schema).to_batches() if is_cast else [found]

    return rows


def _read_stores(connection: duckdb.DuckDBPyConnection, options: Mapping[str, Mapping[str, str]], texts: Iterable[str]) -> None:
    """Let a task's connection read the stores that its settings name."""
    for url, some in options.items():
        use_options(url, some)
    with_stores(connection, "".join(texts))


@contextmanager
def task_errors() -> Iterator[None]:
    """Raise an error of DuckDB in a task as the engine DuckDB does: as `EngineError`, with DuckDB's error as the cause."""
    try:
        yield
    except PySparkException as error:
        told = _DUCKDB_ERROR.search(str(error))
        if told is None:
            raise
        cause = getattr(duckdb, told[1], duckdb.Error)
        raise EngineError(f"DuckDB: {told[2]}") from cause(told[2])
