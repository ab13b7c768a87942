"""Tables of friendly types (`cdc_views.friendly`) as other libraries' frames, every value as it is."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyspark.sql import DataFrame, SparkSession

_RELATION = "result"


def pandas_frame(table: pa.Table) -> pandas.DataFrame:
    """Return a table as a DataFrame; see `Result.to_pandas`."""
    pd = _module("pandas", install="cdc-views[pandas]", method="to_pandas")
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


def polars_frame(table: pa.Table) -> polars.DataFrame:
    """Return a table as a Polars DataFrame; see `Result.to_polars`."""
    return _module("polars", install="polars", method="to_polars").from_arrow(table)


def duckdb_relation(table: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return a table as a relation of DuckDB; see `Result.to_duckdb`."""
    import duckdb

    return (connection or duckdb.connect()).from_arrow(table)


def spark_frame(table: pa.Table, session: SparkSession) -> DataFrame:
    """Return a table as a Spark DataFrame; see `Result.to_spark`.

    Spark has no type for the ns of a time: they are text.
    """
    _module("pyspark", install="cdc-views[spark]", method="to_spark")
    for index, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return session.createDataFrame(table)


def _is_delicate(kind: pa.DataType) -> bool:
    """Whether values are ones that NumPy or Python's datetime cannot hold: in nested types whole numbers and times."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return any(pa.types.is_temporal(part) or pa.types.is_integer(part) or _is_delicate(part) for part in parts)


def _module(name: str, *, install: str, method: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"{method}() needs {name}, which is not installed; pip install '{install}'") from error
