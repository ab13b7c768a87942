"""Frames in the raw layout, whatever their files had when they were written: what is missing is null."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructType

from cdc_views.storage.relation import Relation


def in_layout(frame: DataFrame, relation: Relation) -> DataFrame:
    """Return the columns of the raw layout in order; columns and struct fields that the frame does not have are null."""
    columns = []
    for field in relation.arrow_schema():
        wanted = from_arrow_type(field.type)
        if field.name in frame.columns:
            value = _completed(F.col(f"`{field.name}`"), frame.schema[field.name].dataType, wanted)
        else:
            value = F.lit(None).cast(wanted)
        columns.append(value.alias(field.name))
    return frame.select(*columns)


def _completed(value: Column, stored: DataType, wanted: DataType) -> Column:
    """The value with the fields of `wanted`, by name and in its order, at any depth; a null struct or array stays null."""
    if stored.simpleString() == wanted.simpleString():
        return value
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(value, lambda item: _completed(item, stored.elementType, wanted.elementType))
    if not (isinstance(stored, StructType) and isinstance(wanted, StructType)):
        return value
    known = {field.name: field.dataType for field in stored.fields}

    def part(name: str, kind: DataType) -> Column:
        return _completed(value.getField(name), known[name], kind) if name in known else F.lit(None).cast(kind)

    fields = [part(field.name, field.dataType).alias(field.name) for field in wanted.fields]
    return F.when(value.isNotNull(), F.struct(*fields))
