"""`Result`: the rows of a query, as native values, JSON, Arrow, pandas or a notebook's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.engines.base import BATCH_ROWS
from cdc_views.engines.exact import rows_in
from cdc_views.model.extras import needs
from cdc_views.model.types import LogicalType
from cdc_views.operations.notebook import html_table, plain_row
from cdc_views.rules.codec.jsontext import to_json, to_shown
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_ROWS = 50


class AnswerRows:
    """The rows of a read, in the forms that people take; a subclass has the rows, and what describes them."""

    __slots__ = ()
    relation: Relation
    columns: tuple[str, ...]

    def _batches(self) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict of native values (see `cdc_views.model.types`), None for null."""
        return rows_in(self.relation, self.columns, self._batches())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def json_rows(self) -> Iterator[dict[str, str]]:
        """Yield each row as a dict of JSON texts, in the form of `SELECT JSON`."""
        return self._texts(to_json)

    def shown_rows(self) -> Iterator[dict[str, str]]:
        """Yield `json_rows` for tables and CSV: NaN and the infinities appear as such, and JSON's null in quotes."""
        return self._texts(to_shown)

    def _texts(self, text: Callable[[LogicalType, Any], str]) -> Iterator[dict[str, str]]:
        kinds = {name: self.relation.schema.column(name).type for name in self.columns}
        for row in self.rows():
            yield {name: text(kind, row[name]) for name, kind in kinds.items()}


@dataclass(frozen=True, slots=True)
class StreamedAnswer(AnswerRows):
    """The rows of a query while it is read: they come once, some at a time, in memory that does not grow with their number.

    `columns`, `as_of` and `note` are as in `Answer`.
    """

    relation: Relation
    columns: tuple[str, ...]
    batches: Iterable[pa.RecordBatch]
    as_of: int
    note: str = ""

    def _batches(self) -> Iterable[pa.RecordBatch]:
        return self.batches


@dataclass(frozen=True, slots=True, repr=False)
class Answer(AnswerRows):
    """The result of a read: the rows of a query, or the versions of a history.

    `columns` are user names in the order of the request; a history's start with the row key. `exact` has the rows as the engine
    returned them, lossless. `as_of` (epoch seconds) is the clock of rule C4: when a query read, or a history ended. `note` is for
    the reader, e.g. that nothing has landed yet; mostly empty.
    """

    relation: Relation
    columns: tuple[str, ...]
    exact: pa.Table
    as_of: int
    note: str = ""

    def __len__(self) -> int:
        return int(self.exact.num_rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.relation.schema.full_name!r}, {counted(len(self))} of {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        return html_of(self.columns, self.shown_rows(), count=len(self))

    def _batches(self) -> Iterable[pa.RecordBatch]:
        yield from self.exact.to_batches(max_chunksize=BATCH_ROWS)


def counted(rows: int) -> str:
    """Return a number of rows in words."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def html_of(columns: Sequence[str], rows: Iterable[Mapping[str, str]], *, count: int) -> str:
    """Return the first rows of JSON texts as a notebook's table; the names of the first row stand before `columns`."""
    shown = list(islice(rows, _SHOWN_ROWS))
    more = f", the first {_SHOWN_ROWS} shown" if count > _SHOWN_ROWS else ""
    return html_table(tuple(shown[0]) if shown else columns, map(plain_row, shown), note=f"{counted(count)}{more}")


class ArrowForms:
    """The forms that follow from `to_arrow`, which a subclass has."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """Return `to_arrow()` as a DataFrame; every number is exact.

        ==========================================  =====================================================
        whole numbers, float, double, booleans      nullable Int8 … Int64, Float32, Float64, boolean: a null is `pandas.NA`
        decimals of a declared size                 object: `decimal.Decimal`, None
        text, and what is shown as text             object: str, None
        timestamps                                  datetime64 of ms or µs, with UTC where they are instants
        date, time                                  datetime64, timedelta64[ns]: Python's hold neither years past 9999 nor ns
        nested ones of whole numbers or times       Arrow's (`pandas.ArrowDtype`)
        ==========================================  =====================================================

        Raises `UsageError` if pandas is not installed (`pip install 'cdc-views[pandas]'`).
        """
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """Return `to_arrow()` as a Polars DataFrame, in Polars' types of the same names; every number is exact. Raises
        `UsageError` if Polars is not installed (`pip install polars`).
        """
        with needs("`to_polars`", extra="polars"):
            import polars

        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return `to_arrow()` as a DuckDB relation, of `connection` or of a new database in memory. Types are those of a view,
        except a time of day: it is a TIME of µs or ns, as DuckDB reads Arrow.
        """
        import duckdb

        return (connection or duckdb.connect()).from_arrow(self.to_arrow())

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return `to_arrow()` as a Spark DataFrame of `session`; a time is text, since Spark has none of ns. Raises `UsageError`
        if PySpark is not installed (`pip install 'cdc-views[spark]'`).
        """
        with needs("`to_spark`", extra="spark"):
            import pyspark  # noqa: F401

        table = self.to_arrow()
        for index, field in enumerate(table.schema):
            if pa.types.is_time(field.type):
                table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
        return session.createDataFrame(table)


@dataclass(frozen=True, slots=True, repr=False)
class Result(Answer, ArrowForms):
    """The rows of one query; `overrides` are friendly types by column, from the project file."""

    overrides: Mapping[str, str] = default(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """Return the rows with friendly types: timestamps, dates, maps; values that would lose digits stay text. The value of 0
        bytes (`EMPTY`) becomes null. See `cdc_views.storage.friendly`.
        """
        from cdc_views.storage.friendly import friendly_table

        return friendly_table(self.relation.schema, self.rows(), columns=self.columns, overrides=self.overrides)


def pandas_frame(table: pa.Table) -> pandas.DataFrame:
    """Return a table of friendly types as a DataFrame; see `Result.to_pandas`."""
    with needs("`to_pandas`", extra="pandas"):
        import pandas as pd

    plain = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }

    def wanted(kind: pa.DataType) -> Any:
        return plain.get(kind) or (pd.ArrowDtype(kind) if _is_delicate(kind) else None)

    for index, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            spans = table.column(index).cast(pa.int64()).cast(pa.duration("ns"))
            table = table.set_column(index, field.name, spans)
    return table.to_pandas(date_as_object=False, types_mapper=wanted)


def _is_delicate(kind: pa.DataType) -> bool:
    """Return whether NumPy or Python's datetime cannot hold the values: nested whole numbers and times."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return any(pa.types.is_temporal(part) or pa.types.is_integer(part) or _is_delicate(part) for part in parts)
