"""States and serving tables by Spark: a DataFrame, committed by Delta's own writer, one writer at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from cdc_views.engines import serving, state_plan
from cdc_views.engines.base import StateWrite
from cdc_views.engines.serving import ServingWrite
from cdc_views.errors import EngineError
from cdc_views.landing.delta import recorded
from cdc_views.landing.digests import note_missing
from cdc_views.plan import names
from cdc_views.plan.compact import FEWER_DIGITS, PART
from cdc_views.plan.nodes import UnionAll
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.spark import Spark
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.relation import Relation
from cdc_views_spark.compile import Compiler
from cdc_views_spark.reading import parts_of_sources

_CODEC = "lz4_raw"
"""The fastest to read, as in DuckDB; a scan of Spark's default, Snappy, takes an eighth longer."""
_DICTIONARIES = "parquet.enable.dictionary"
"""Most values of a state differ, so dictionaries are built and discarded: a quarter of the time of a new base. Files are as large
without them. Only a session's setting works: Delta ignores such an option of a write."""
_PLAIN = f"{PART}={Part.PLAIN.value}"
MOST_FILES = 4
"""The largest number of files per bucket of the base, before the rows that stay are moved together again."""
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
"""Writes Parquet's own timestamps: other readers do not see that Spark's INT96 is in UTC."""


def write_state(session: SparkSession, write: StateWrite) -> None:
    """See `Engine.write_state`."""
    root, replaced = state_plan.plan_of(write), state_plan.replaced_by(write)
    compiler = Compiler(parts_of_sources(session, write.sources, drops_empty=True))
    with committing(write), setting(session, _DICTIONARIES, "false"):
        writer = _facts(compiler, root, write).write.mode("overwrite" if write.replaced else "append")
        writer = writer.options(mergeSchema="true", compression=_CODEC)
        _save(writer if replaced is None else writer.option("replaceWhere", replaced), write)


def _facts(compiler: Compiler, root: UnionAll, write: StateWrite) -> DataFrame:
    """The facts to write. Rows that stay as they are need not move, as long as each bucket has few files."""
    kept, others = state_plan.kept_and_moved(root)
    if not (write.into is Part.BASE and kept and others and _stays_in_place(write)):
        return _laid_out(compiler.dataframe(root), write)
    moved = _laid_out(compiler.dataframe(replace(root, parts=others)), write)
    in_place = (_typed(compiler.dataframe(part), write.sources.raw.relation) for part in kept)
    return reduce(DataFrame.unionAll, in_place, moved)


def _stays_in_place(write: StateWrite) -> bool:
    """Whether old and new base have the same split, and no bucket has too many files yet."""
    if write.sources.split() is None or not write.digits:
        return False
    parts = Counter(Path(file).parent.name for file in write.sources.paths(Source.BASE))
    fewer = max(write.digits - FEWER_DIGITS, 0)
    is_alike = all(_digits(name) == (write.digits if name.startswith(_PLAIN) else fewer) for name in parts)
    return is_alike and max(parts.values()) < MOST_FILES


def _digits(folder: str) -> int:
    """The number of digits after the letter in a folder `_part=…`."""
    return len(folder) - len(_PLAIN)


def _laid_out(facts: DataFrame, write: StateWrite) -> DataFrame:
    relation = write.sources.raw.relation
    return _spread(_typed(facts, relation), write.digits, state_plan.order_of(relation))


def _spread(rows: DataFrame, digits: int, order: tuple[str, ...]) -> DataFrame:
    spread = rows.repartition(F.col(PART)) if digits else rows.coalesce(1)
    return spread.sortWithinPartitions(*map(_column, order))


def _typed(facts: DataFrame, relation: Relation) -> DataFrame:
    typed = [_column(f.name).cast(from_arrow_type(f.type)).alias(f.name) for f in relation.arrow_schema()]
    return facts.select(*typed, F.col(PART))


def write_serving(session: SparkSession, write: ServingWrite) -> None:
    """See `Engine.write_serving`."""
    dialect = Spark()
    dialect.holds_any_field = False
    with committing(write), setting(session, _TIMESTAMPS, "TIMESTAMP_MICROS"):
        shown = Compiler(parts_of_sources(session, write.sources), dialect=dialect).dataframe(serving.plan_of(write))
        rows = _spread(
            shown.select(*map(_served, serving.serving_schema(write.relation))), write.digits, serving.order_of(write.relation)
        )
        columns = {"overwriteSchema": "true"} if write.replaced is None else {"replaceWhere": write.replaced}
        _save(rows.write.mode("overwrite").options(userMetadata=write.note, **columns), write)


def _served(field: pa.Field) -> Column:
    if field.name == CHANGES_AT:
        return (F.shiftright(-F.col(names.SOONEST).cast("bigint"), SHIFT) + F.lit(LIFT)).alias(CHANGES_AT)
    return _column(field.name).cast(from_arrow_type(field.type, prefer_timestamp_ntz=True)).alias(field.name)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _save(writer: DataFrameWriter, write: StateWrite | ServingWrite) -> None:
    name, number = write.transaction
    writer.format("delta").option("txnAppId", name).option("txnVersion", number).partitionBy(PART).save(write.target)


@contextmanager
def committing(write: StateWrite | ServingWrite) -> Iterator[None]:
    """Let the block commit `write`; raises `ConflictError` if another run committed first.

    Delta silently skips a write whose transaction number is not above the recorded one, so this checks before and after.
    """
    name, number = write.transaction
    overtaken = ConflictError(f"{write.target}: another run committed first")
    if (recorded(DeltaTable(write.target), name) or -1) >= number:
        raise overtaken
    try:
        yield
    except PySparkException as error:
        if "Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise overtaken from error
        raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error
    written = DeltaTable(write.target)
    if recorded(written, name) != number:
        raise overtaken
    note_missing(written)


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set an option of the session in this block."""
    before = session.conf.get(name, None)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)
