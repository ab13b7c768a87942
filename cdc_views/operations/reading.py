"""Checks the arguments of a read, and attributes its failures: to the caller, to files, to the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc_views.errors import EngineError, UnsupportedError, UsageError, did_you_mean
from cdc_views.model.strategy import Strategy
from cdc_views.rules.instants import Instant, epoch_micros

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext

_CALLERS_FAULT = {
    "BinderException", "CatalogException", "ConversionException", "ParserException",  # DuckDB
    "AnalysisException", "NumberFormatException", "ParseException",  # Spark
    "InvalidQueryError",  # BigQuery
}  # fmt: skip
"""Errors of engines for a condition that they cannot evaluate."""
_MOST_ROWS = (1 << 63) - 1


@contextmanager
def condition_errors(where: str | None) -> Iterator[None]:
    """Turn an engine's error about the user's condition, e.g. types that do not compare, into a `UsageError`."""
    try:
        yield
    except EngineError as error:
        if where is None or type(error.__cause__).__name__ not in _CALLERS_FAULT:
            raise
        raise UsageError(f"--where {where!r} cannot be evaluated: {error}") from error


@contextmanager
def file_errors(location: str) -> Iterator[None]:
    """Turn Arrow's errors about missing or damaged files into an `EngineError`."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:  # Arrow raises OSError for a damaged footer, too
        raise EngineError(f"raw table {location} cannot be read: {error}") from error


def bounds_of(table: TableContext, *, landed: Instant | None, written: Instant | None) -> tuple[int | None, int | None]:
    """Return both bounds of a `Read` in µs, None for no bound; raises `UsageError` for an invalid instant."""
    from cdc_views.formats.base import WriteOrder

    if written is not None and table.format.order is not WriteOrder.MICROS:
        raise UnsupportedError(
            f"{table.name}: events of {table.format.name} are ordered by log position, which is no time",
            remedy="use --landed-as-of",
        )
    return (
        None if landed is None else epoch_micros(landed, option="landed_as_of"),
        None if written is None else epoch_micros(written, option="written_as_of"),
    )


def checked_limit(limit: int | None) -> int | None:
    """Return `limit`; raises `UsageError` for a number of rows that engines cannot count."""
    if limit is not None and not 0 <= limit <= _MOST_ROWS:
        raise UsageError(f"limit is {limit}; a number of rows, 0 or more and below 2^63, was expected")
    return limit


def columns_of(table: TableContext, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns asked for, by default all; raises `UsageError` for an unknown or repeated name."""
    wanted = tuple(columns) or tuple(column.name for column in table.schema.columns)
    for name in wanted:
        table.schema.column(name)
        if wanted.count(name) > 1:
            raise UsageError(f"{table.name}: column {name!r} is asked for twice; name it once")
    return wanted


def strategy_of(table: TableContext, strategy: str | Strategy | None) -> Strategy:
    """Return the strategy, by default the view's; raises `UsageError` with a suggestion."""
    if strategy is None:
        return table.config.view.strategy
    try:
        return Strategy(strategy)
    except ValueError as error:
        known = [member.value for member in Strategy]
        raise UsageError(f"there is no strategy {str(strategy)!r}{did_you_mean(str(strategy), known)}") from error
