"""`Project.sql`: a user's own query over merged tables, in the engine's SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from cdc_views.engines.base import BATCH_ROWS, Read, StatementRead
from cdc_views.engines.plugin import engine_plugin, engines_that
from cdc_views.errors import UnsupportedError, UsageError, did_you_mean
from cdc_views.model.types import Kind, contains
from cdc_views.model.user_statements import TableReference, UserStatement
from cdc_views.operations.context import ProjectContext, TableContext
from cdc_views.operations.damage import naming_damage
from cdc_views.operations.querying import reading_as_shown
from cdc_views.operations.reading import BINDING, RUNNING, statement_errors
from cdc_views.operations.result import ArrowForms, counted, html_of
from cdc_views.rules.codec.arrow_texts import ArrowTexts
from cdc_views.rules.instants import Instant, epoch_seconds


class StatementTexts:
    """The rows of a statement as texts and values; a subclass has the batches."""

    __slots__ = ()
    schema: pa.Schema
    has_millis: bool

    def _batches(self) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.schema.names)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict of Python's values, None for null; times past the year 9999 are an error of Python's."""
        for batch in self._batches():
            yield from batch.to_pylist()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def json_rows(self) -> Iterator[dict[str, str]]:
        """Yield each row as a dict of JSON texts."""
        return self._texts(ArrowTexts(is_json=True, has_millis=self.has_millis))

    def shown_rows(self) -> Iterator[dict[str, str]]:
        """Yield `json_rows` for tables and CSV: NaN and the infinities by name."""
        return self._texts(ArrowTexts(is_json=False, has_millis=self.has_millis))

    def _texts(self, texts: ArrowTexts) -> Iterator[dict[str, str]]:
        for batch in self._batches():
            for row in zip(*map(texts.of, batch.columns), strict=True):
                yield dict(zip(self.columns, row, strict=True))


@dataclass(frozen=True, slots=True)
class StreamedStatement(StatementTexts):
    """The rows of a statement while it runs: they come once, some at a time.

    `as_of` (epoch seconds) is the clock of all tables. `has_millis`: see `ArrowTexts`. `notes` are for the reader, by table;
    mostly empty. `tables` are the names of the tables that it reads.
    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    as_of: int
    has_millis: bool
    notes: Mapping[str, str]
    tables: Sequence[str] = ()

    def _batches(self) -> Iterable[pa.RecordBatch]:
        return self.batches


@dataclass(frozen=True, slots=True, repr=False)
class StatementResult(StatementTexts, ArrowForms):
    """The rows of one statement, in the engine's types. `as_of` and `notes` are as in `StreamedStatement`."""

    exact: pa.Table
    as_of: int
    has_millis: bool
    notes: Mapping[str, str]

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self.exact.schema

    def to_arrow(self) -> pa.Table:
        """Return the rows as the engine returned them."""
        return self.exact

    def _batches(self) -> Iterable[pa.RecordBatch]:
        yield from self.exact.to_batches(max_chunksize=BATCH_ROWS)

    def __len__(self) -> int:
        return int(self.exact.num_rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(len(self))} of {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        return html_of(self.columns, self.shown_rows(), count=len(self))


def run_statement(project: ProjectContext, text: str, **asked: Any) -> StatementResult:
    """Return the rows of a query over merged tables; see `Project.sql`. Passes `asked` on to `streamed_statement`."""
    with streamed_statement(project, text, **asked) as found:
        rows = pa.Table.from_batches(list(found.batches), schema=found.schema)
    return StatementResult(rows, found.as_of, found.has_millis, found.notes)


@contextmanager
def streamed_statement(
    project: ProjectContext,
    text: str,
    *,
    engine: str | None = None,
    as_of: Instant | None = None,
    raw_only: bool = False,
    **asked: Any,
) -> Iterator[StreamedStatement]:
    """Yield the rows of `run_statement`, which come while the block takes them."""
    statement = UserStatement(text, _dialect(engine or project.config.engine))
    tables = {one.name: _table(project, one) for one in statement.references}
    named = {table.name: table for table in tables.values()}
    now = epoch_seconds(datetime.now(timezone.utc) if as_of is None else as_of)
    reads, notes = dict[str, Read](), dict[str, str]()
    with ExitStack() as stack:
        stack.enter_context(statement_errors(RUNNING))
        stack.enter_context(naming_damage(*named.values()))
        stack.enter_context(statement_errors(BINDING))
        for name, table in named.items():
            read, note = stack.enter_context(reading_as_shown(table, as_of=as_of, raw_only=raw_only, **asked))
            reads[name] = replace(read, as_of=now)
            notes |= {name: note} if note else {}
        opened = stack.enter_context(project.engine(engine))
        found = opened.run_statement(StatementRead(statement, {name: one.name for name, one in tables.items()}, reads))
        _check_names(found.columns.names)
        yield StreamedStatement(found.columns, found.batches, now, _have_millis(named.values()), notes, tuple(named))


def _dialect(engine: str) -> str:
    found = engine_plugin(engine).statement_dialect
    if found is None:
        others = " or ".join(engines_that(lambda plugin: plugin.statement_dialect is not None))
        told = f"engine {engine} runs no SQL over merged tables by itself"
        raise UnsupportedError(told, remedy=f"run `cdc-views apply`, and query its views there; engine {others} would run it")
    return found


def _table(project: ProjectContext, one: TableReference) -> TableContext:
    """The table that is called so, or, since SQL ignores case, the only one that differs in it; whole names go first."""
    name = one.name.casefold()
    exact = [table for table in project.tables if table.is_called(one.name)]
    like = exact or [table for table in project.tables if table.is_called(one.name, ignores_case=True)]
    found = [t for t in like if t.name == one.name] or [t for t in like if t.name.casefold() == name] or like
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"the query reads {one.name!r}, which may be {' and '.join(t.name for t in found)}; give the whole name")
    known = [table.name for table in project.tables]
    raise UsageError(f"the query reads {one.name!r}, which {project.file} does not have{did_you_mean(one.name, known)}")


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two columns of the query's rows are called {name!r}; name them, as {name} AS other")


def _have_millis(tables: Iterable[TableContext]) -> bool:
    """Whether instants look as those of Cassandra: unless only instants of another source are among the columns."""
    kinds = [column.type for table in tables for column in table.schema.columns]
    return any(contains(kind, Kind.TIMESTAMP) for kind in kinds) or not any(contains(kind, Kind.INSTANT) for kind in kinds)
