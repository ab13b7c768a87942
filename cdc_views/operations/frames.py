"""Tables of friendly types (`cdc_views.storage.friendly`) as other libraries' frames, every value as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.model.extras import needs

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyspark.sql import DataFrame, SparkSession


def pandas_frame(table: pa.Table) -> pandas.DataFrame:
    """Return a table as a DataFrame; see `Result.to_pandas`."""
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


def pandas_rows(table: pa.Table) -> pandas.DataFrame:
    """Return a table as a DataFrame of Arrow's types alone, as `validate` hands it on."""
    with needs("`validate` without --no-docs", extra="quality"):
        import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def polars_frame(table: pa.Table) -> polars.DataFrame:
    """Return a table as a Polars DataFrame; see `Result.to_polars`."""
    with needs("`to_polars`", extra="polars"):
        import polars

    return polars.from_arrow(table)


def duckdb_relation(table: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return a table as a relation of DuckDB; see `Result.to_duckdb`."""
    import duckdb

    return (connection or duckdb.connect()).from_arrow(table)


def spark_frame(table: pa.Table, session: SparkSession) -> DataFrame:
    """Return a table as a Spark DataFrame; see `Result.to_spark`.

    Spark has no type for the ns of a time: they are text.
    """
    with needs("`to_spark`", extra="spark"):
        import pyspark  # noqa: F401

    for index, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return session.createDataFrame(table)


def _is_delicate(kind: pa.DataType) -> bool:
    """Whether values are ones that NumPy or Python's datetime cannot hold: in nested types whole numbers and times."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return any(pa.types.is_temporal(part) or pa.types.is_integer(part) or _is_delicate(part) for part in parts)
