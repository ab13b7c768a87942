"""The engines that run each dialect's generated text: `tests/properties/test_dialects.py` runs all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from helpers.dialect_cases import Record, Table, assert_exact, assert_shown
from helpers.dialect_shown import SHOWN
from helpers.googlesql_functions import Function, function_of, written_out

Fixture = Callable[[str], Any]
Open = Callable[[Path, Fixture], AbstractContextManager["Runner"]]
"""Called with a folder for files, and what returns a fixture of the tests by name."""


class Runner(Protocol):
    """An engine that is open."""

    def load(self, rows: pa.Table) -> str:
        """Make the rows the raw table; return the FROM clause that reads it."""
        ...

    def query(self, sql: str) -> list[Record]:
        """Return the rows of a SELECT."""
        ...

    def keywords(self) -> list[str]:
        """The engine's own keywords, where it tells them."""
        ...


class Defining(Runner, Protocol):
    """An engine whose functions the text may call."""

    def define(self, schema: str, statements: list[str]) -> None:
        """Make a schema, and functions in it."""
        ...


@dataclass(frozen=True)
class Engine:
    """How a dialect's text is run.

    `mark` says when: none of these is `make test`. `is_exact`: what is compared are stored values; of real cases, also what a
    view shows. `worst` is a replacement in the text of the strategy `aggregate` that makes the least cell win.
    """

    open: Open
    mark: str
    worst: tuple[str, str]
    is_exact: bool = False
    histories: int = 40
    """Of each subject."""
    words: int = 30
    """Of one query of words as names; the first of them also names a table, and a struct's field."""

    def check(
        self, runner: Runner, table: Table, *, dialect: str, strategy: str, is_real: bool = False, worst: bool = False
    ) -> None:
        """Compare what the dialect's text shows with the oracle's rows."""
        source = runner.load(table.relation.rows(table.facts, landed_at=0))

        def run(sql: str) -> list[Record]:
            return runner.query(sql.replace(*self.worst) if worst else sql)

        if self.is_exact:
            assert_exact(table, run, dialect=dialect, strategy=strategy, source=source)
        if dialect in SHOWN and (is_real or not self.is_exact):
            assert_shown(table, run, SHOWN[dialect], dialect=dialect, strategy=strategy, source=source)


@dataclass
class _Named:
    """An engine whose tables have names."""

    tables: Any

    def load(self, rows: pa.Table) -> str:
        self.tables.load("raw_t", rows)
        return "raw_t"

    def query(self, sql: str) -> list[Record]:
        return list(self.tables.query(sql))

    def keywords(self) -> list[str]:
        return list(self.tables.keywords())

    def define(self, schema: str, statements: list[str]) -> None:
        for statement in (f"CREATE SCHEMA IF NOT EXISTS {schema}", *statements):
            self.tables.define(statement)


class _DuckDb:
    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect()

    def load(self, name: str, rows: pa.Table) -> None:
        self._connection.register(name, rows)

    def query(self, sql: str) -> list[Record]:
        rows: list[Record] = self._connection.sql(sql).to_arrow_table().to_pylist()
        return rows

    def keywords(self) -> list[str]:
        return [row["keyword_name"] for row in self.query("SELECT keyword_name FROM duckdb_keywords()")]

    def define(self, statement: str) -> None:
        self._connection.execute(statement)


class _Spark:
    def __init__(self, session: Any) -> None:
        self._session = session

    def load(self, name: str, rows: pa.Table) -> None:
        self._session.createDataFrame(rows).createOrReplaceTempView(name)

    def query(self, sql: str) -> list[Record]:
        rows: list[Record] = self._session.sql(sql).toArrow().to_pylist()
        return rows

    def keywords(self) -> list[str]:
        return [row["keyword"] for row in self.query("SELECT keyword FROM sql_keywords()")]

    def define(self, statement: str) -> None:
        self._session.sql(statement)


class _GoogleSql:
    def __init__(self) -> None:
        from helpers.dialect_zetasql import GoogleSql

        self._engine = GoogleSql()
        self.load = self._engine.register
        self._functions = dict[str, Function]()

    def keywords(self) -> list[str]:
        return []

    def define(self, statement: str) -> None:
        if statement.startswith("CREATE SCHEMA"):
            return
        made = self._engine.analyze(statement).resolved_create_statement_node.resolved_create_function_stmt_node
        self._functions[".".join(made.parent.name_path)] = function_of(made)

    def query(self, sql: str) -> list[Record]:
        return self._engine.query(written_out(sql, self._functions))


@contextmanager
def _duckdb(_: Path, __: Fixture) -> Iterator[Runner]:
    yield _Named(_DuckDb())


@contextmanager
def _spark(_: Path, fixture: Fixture) -> Iterator[Runner]:
    yield _Named(_Spark(fixture("spark_engine").session))


@contextmanager
def _googlesql(_: Path, __: Fixture) -> Iterator[Runner]:
    yield _Named(_GoogleSql())


@contextmanager
def _postgres(_: Path, __: Fixture) -> Iterator[Runner]:
    from helpers.dialect_postgres import database

    with database() as tables:
        yield _Named(tables)


@contextmanager
def _clickhouse(folder: Path, _: Fixture) -> Iterator[Runner]:
    from helpers.dialect_clickhouse import clickhouse

    with clickhouse(folder) as tables:
        yield tables


@contextmanager
def _trino(_: Path, fixture: Fixture) -> Iterator[Runner]:
    from helpers.dialect_trino import TrinoTables

    yield _Named(TrinoTables(fixture("trino_server")))


_LEAST = ("MAX(", "MIN(")
ENGINES = {
    "duckdb": Engine(_duckdb, "", _LEAST, is_exact=True, words=1),
    "spark": Engine(_spark, "spark", _LEAST, is_exact=True),
    "databricks": Engine(_spark, "spark", _LEAST, is_exact=True),  # Databricks itself is nowhere to be had: its text, on Spark
    "bigquery": Engine(_googlesql, "heavy", (" DESC", " ASC"), is_exact=True, histories=29, words=10),
    "postgres": Engine(_postgres, "live", (" DESC", " ASC")),
    "clickhouse": Engine(_clickhouse, "slow", ("argMaxIf(", "argMinIf(")),
    "trino": Engine(_trino, "live", (" DESC", " ASC")),
}
"""By dialect."""
