"""Checks the arguments of a read, and attributes its failures to the caller, to files or to the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TypedDict

from pyarrow import ArrowException

from cdc_views.engines.base import Read
from cdc_views.errors import EngineError, UnsupportedError, UsageError, choose_one
from cdc_views.formats.base import WriteOrder
from cdc_views.model.conditions import checked
from cdc_views.model.schema import Column
from cdc_views.model.strategy import Strategy
from cdc_views.model.style import Style
from cdc_views.model.types import Kind, Scalar
from cdc_views.operations.context import TableContext
from cdc_views.rules.instants import Instant, epoch_micros, epoch_seconds


class ReadOptions(TypedDict, total=False):
    """The arguments that every read takes; see `Table.query`."""

    as_of: Instant | None
    where: str | None
    columns: Sequence[str]
    limit: int | None
    strategy: str | Strategy | None
    landed_as_of: Instant | None
    written_as_of: Instant | None


class FrameOptions(ReadOptions, total=False):
    """The arguments of `Table.dataframe`."""

    raw_only: bool


class QueryOptions(FrameOptions, total=False):
    """The arguments of `Table.write`, and of `Table.query` without those of its order."""

    engine: str | None
    confirmed: bool


class OrderedOptions(QueryOptions, total=False):
    """The arguments of `Table.query`."""

    order_by: Sequence[str]
    offset: int


class StatementOptions(TypedDict, total=False):
    """The arguments of `Project.sql`."""

    as_of: Instant | None
    engine: str | None
    landed_as_of: Instant | None
    written_as_of: Instant | None
    raw_only: bool


_NUMBERS_AS_TEXT = frozenset({Kind.DECIMAL, Kind.VARINT, Kind.DURATION, Kind.JSON})
BINDING = {
    "BinderException", "CatalogException", "ConversionException", "ParserException",  # DuckDB
    "AnalysisException", "NumberFormatException", "ParseException",  # Spark
    "InvalidQueryError",  # BigQuery
}  # fmt: skip
"""Errors of engines for a condition that they cannot evaluate."""
RUNNING = {
    "InvalidInputException", "OutOfRangeException", "PermissionException", "NotImplementedException", "SyntaxException",
    "ArithmeticException", "DateTimeException", "IllegalArgumentException", "ArrayIndexOutOfBoundsException",
}  # fmt: skip
"""Errors of engines for a statement that fails while it runs. DuckDB's for damaged files are among them."""


@contextmanager
def condition_errors(where: str | None) -> Iterator[None]:
    """Turn an engine's error about the user's condition, such as incomparable types, into a `UsageError`."""
    try:
        yield
    except EngineError as error:
        if where is None or type(error.__cause__).__name__ not in BINDING:
            raise
        raise UsageError(f"--where {where!r} cannot be evaluated: {error}") from error


@contextmanager
def statement_errors(causes: Collection[str]) -> Iterator[None]:
    """Turn an engine's error about a user's statement into a `UsageError`; `causes` are the engine's classes of such errors."""
    try:
        yield
    except EngineError as error:
        if type(error.__cause__).__name__ not in causes:
            raise
        told = " ".join(str(error.__cause__).partition("\n\n")[0].split("\n'")[0].split())
        raise UsageError(f"the query cannot be run: {told}") from error


@contextmanager
def file_errors(location: str) -> Iterator[None]:
    """Turn Arrow's errors about missing or damaged files into an `EngineError`."""
    try:
        yield
    except (ArrowException, OSError) as error:  # Arrow raises OSError for a damaged footer, too
        raise EngineError(f"raw table {location} cannot be read: {error}") from error


def read_of(
    table: TableContext,
    *,
    as_of: Instant | None = None,
    where: str | None = None,
    columns: Iterable[str] = (),
    limit: int | None = None,
    strategy: str | Strategy | None = None,
    landed_as_of: Instant | None = None,
    written_as_of: Instant | None = None,
    order_by: Sequence[str] = (),
    offset: int = 0,
) -> Read:
    """Return the read for the arguments of `Table.query` or `Table.history`; raises `UsageError` for an invalid argument."""
    checked(where)
    if limit is not None and not 0 <= limit < 1 << 63:
        raise UsageError(f"limit is {limit}; a number of rows, 0 or more and below 2^63, was expected")
    if not 0 <= offset < 1 << 63:
        raise UsageError(f"offset is {offset}; a number of rows, 0 or more and below 2^63, was expected")
    chosen = strategy_of(table, strategy)
    if written_as_of is not None and table.format.order is not WriteOrder.MICROS:
        raise UnsupportedError(
            f"{table.name}: events of {table.format.name} are ordered by log position, which is no time",
            remedy="use --landed-as-of",
        )
    landed = None if landed_as_of is None else epoch_micros(landed_as_of, option="landed_as_of")
    written = None if written_as_of is None else epoch_micros(written_as_of, option="written_as_of")
    wanted = tuple(columns) or tuple(column.name for column in table.schema.columns)
    for name in wanted:
        table.schema.column(name)
        if wanted.count(name) > 1:
            raise UsageError(f"{table.name}: column {name!r} is asked for twice; name it once")
    clock = epoch_seconds(datetime.now(timezone.utc) if as_of is None else as_of)
    order = tuple(_sort_key(table, one) for one in order_by)
    return Read(
        table.raw, clock, wanted, where, limit, chosen, landed_as_of=landed, written_as_of=written, order_by=order, offset=offset
    )


def _sort_key(table: TableContext, text: str) -> tuple[str, bool]:
    """Return the column that `text` names, and whether a `-` before it asks for a descending order."""
    name = text[1:] if text.startswith("-") and not table.schema.has(text) else text
    column = table.schema.column(name)
    if not column.is_key and not is_sortable(table.relation.shown.column(name)):
        raise UsageError(
            f"{table.name}: rows cannot be ordered by {name!r}, a {column.type}: a view has no value of it in the order of "
            'the column; write SQL with a CAST (`query "SELECT … ORDER BY …"`)'
        )
    return name, name != text


def is_sortable(column: Column) -> bool:
    """Whether a view's values of a regular column have the order of the column's: numbers that are shown as text do not."""
    kind = column.type
    return isinstance(kind, Scalar) and (kind.kind not in _NUMBERS_AS_TEXT or kind.decimal_size is not None)


def strategy_of(table: TableContext, strategy: str | Strategy | None) -> Strategy:
    """Return the strategy, by default the view's; raises `UsageError` with a suggestion."""
    if strategy is None:
        return table.config.view.strategy
    try:
        return Strategy(strategy)
    except ValueError as error:
        known = [member.value for member in Strategy]
        raise UsageError(f"there is no strategy {str(strategy)!r}; {choose_one(str(strategy), known)}") from error


def style_of(style: str | Style) -> Style:
    """Return the style of a view's text; raises `UsageError` with a suggestion."""
    try:
        return Style(style)
    except ValueError as error:
        known = [member.value for member in Style]
        raise UsageError(f"there is no style {str(style)!r}; {choose_one(str(style), known)}") from error
