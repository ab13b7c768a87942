"""States and serving tables by Spark: Parquet files of a DataFrame; we commit them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from cdc_views.engines import serving, state_plan
from cdc_views.engines.base import WRITE_IT, Read, StateWrite, ValueForm, Written
from cdc_views.engines.serving import ServingWrite, for_form
from cdc_views.engines.serving_files import commit_files
from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.parts import Source
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.spark import Spark
from cdc_views.storage.delta_log import DRAFT
from cdc_views.storage.places import Place, at_once, place_of, remove_tree
from cdc_views.storage.relation import Relation
from cdc_views_spark.compile import Compiler, column_of
from cdc_views_spark.executors import is_local
from cdc_views_spark.reading import parts_of_sources, placed
from cdc_views_spark.settings import setting

_CODEC = "lz4_raw"
"""The fastest to read, as in DuckDB; a scan of Spark's default, Snappy, takes an eighth longer."""
_DICTIONARIES = "parquet.enable.dictionary"
"""Most values of a state differ, so dictionaries are built and discarded: a quarter of the time of a new base. Files are as large
without them. Only a session's setting works: Delta ignores such an option of a write."""
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
"""Writes Parquet's own timestamps: other readers do not see that Spark's INT96 is in UTC."""
_MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
"""A file `_SUCCESS`: what our folders hold has its place once all of it is written."""
_NO_CLIENT = "No FileSystem for scheme"
_TOO_LARGE = "spark.driver.maxResultSize"


def write_state(session: SparkSession, write: StateWrite) -> Written:
    """See `Engine.write_state`."""
    parts = parts_of_sources(session, write.sources, drops_empty=True)
    root, draft = state_plan.plan_of(write), _draft(write.target)
    try:
        with in_its_words(), setting(session, _DICTIONARIES, "false"), setting(session, _TIMESTAMPS, "TIMESTAMP_MICROS"):
            replaced = _replaced(session, write, parts)
            facts = _laid_out(Compiler(parts).dataframe(root), write)
            facts.write.partitionBy(PART).options(compression=_CODEC).parquet(str(draft))
        return Written(tuple(_moved(draft)), replaced)
    finally:
        _remove(draft)


def _draft(target: str) -> Place:
    return place_of(target) / f"{DRAFT}{uuid4()}"


def _remove(draft: Place) -> None:
    """Delete the folder of files that did not get their places, if it is there; `maintain` deletes what a failure leaves."""
    with suppress(OSError, EngineError):
        remove_tree(draft)


def _moved(draft: Place) -> list[str]:
    """Move the files that Spark wrote to their places in the table, and return their paths within it."""

    def move(file: Place) -> str:
        folder = draft.parent / file.parent.name
        folder.mkdir(parents=False, exist_ok=True)
        name = f"part-{uuid4()}.parquet"  # Spark's own names recur in several folders
        file.rename(folder / name)
        return f"{folder.name}/{name}"

    return at_once(move, sorted(draft.glob(f"{PART}=*/*.parquet")))


def _replaced(
    session: SparkSession, write: StateWrite, parts: Mapping[Source, Callable[[], DataFrame]]
) -> dict[str, Iterable[int]]:
    plan = state_plan.replaced_by(write)
    if plan is None:
        return {}
    rows = Compiler({**parts, Source.BASE: lambda: placed(session, write.sources)}).dataframe(plan)
    found = rows.groupBy(names.FILE).agg(F.collect_list(names.POSITION).alias(names.POSITION))
    return {row[names.FILE]: row[names.POSITION] for row in found.toArrow().to_pylist()}


def _laid_out(facts: DataFrame, write: StateWrite) -> DataFrame:
    relation = write.sources.raw.relation
    return _spread(_typed(facts, relation), write.digits, state_plan.order_of(relation))


def _spread(rows: DataFrame, digits: int, order: tuple[str, ...]) -> DataFrame:
    spread = rows.repartition(F.col(PART)) if digits else rows.coalesce(1)
    return spread.sortWithinPartitions(*map(column_of, order))


def _typed(facts: DataFrame, relation: Relation) -> DataFrame:
    typed = [column_of(f.name).cast(from_arrow_type(f.type)).alias(f.name) for f in relation.arrow_schema()]
    return facts.select(*typed, F.col(PART))


def write_serving(session: SparkSession, write: ServingWrite) -> None:
    """See `Engine.write_serving`."""
    dialect, draft = for_form(Spark(), ValueForm.HELD), _draft(write.target)
    try:
        with in_its_words(), setting(session, _TIMESTAMPS, "TIMESTAMP_MICROS"):
            shown = Compiler(parts_of_sources(session, write.sources), dialect=dialect).dataframe(serving.plan_of(write))
            served = shown.select(*map(_served, serving.serving_schema(write.relation)))
            rows = _spread(served, write.digits, serving.order_of(write.relation))
            rows.write.partitionBy(PART).parquet(str(draft))
        commit_files(write, _moved(draft))
    finally:
        _remove(draft)


def _served(field: pa.Field) -> Column:
    if field.name == CHANGES_AT:
        return (F.shiftright(-F.col(names.SOONEST).cast("bigint"), SHIFT) + F.lit(LIFT)).alias(CHANGES_AT)
    return _cast(field.name, field)


def _cast(name: str, field: pa.Field) -> Column:
    return column_of(name).cast(from_arrow_type(field.type, prefer_timestamp_ntz=True)).alias(field.name)


def write_files(session: SparkSession, frame: DataFrame, read: Read, *, folder: Place) -> list[Place]:
    """See `FilesEngine.write_files`; `frame` is the plan's."""
    _check_seen(session, folder)
    location = str(folder.absolute() if isinstance(folder, Path) else folder)
    rows = frame.select(*(_cast(output, field) for output, field in serving.held_fields(read)))
    with in_its_words(), setting(session, _TIMESTAMPS, "TIMESTAMP_MICROS"):
        rows.write.option(_MARKS_SUCCESS, "false").parquet(location)
    return sorted(folder.glob("*.parquet"))


def _check_seen(session: SparkSession, folder: Place) -> None:
    """Raise `UnsupportedError` if what tasks write into a folder would not be in the folder of this process."""
    if not isinstance(folder, Path) or is_local(session):
        return
    probe = folder.with_name(f".{folder.name}.seen")
    probe.write_text("seen", "utf-8")
    try:
        session.read.text(str(probe.absolute())).collect()
    except PySparkException as error:
        raise UnsupportedError(
            f"Spark's executors do not see {folder.parent} of this machine", remedy="name a folder that all share, or a URL"
        ) from error
    finally:
        probe.unlink()


@contextmanager
def in_its_words() -> Iterator[None]:
    """Raise an error of Spark in the block as `EngineError`: its first line, or the remedy for an answer that is too large."""
    try:
        yield
    except PySparkException as error:
        if _TOO_LARGE in str(error):
            raise EngineError(f"Spark: the answer is larger than the driver takes ({_TOO_LARGE}); {WRITE_IT}") from error
        raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error
    except Py4JJavaError as error:  # what PySpark has no class for
        told = f"Spark: {str(error.java_exception.toString()).splitlines()[0]}"
        if _NO_CLIENT in told:
            remedy = "take --engine duckdb, or give the session a client of that store, as hadoop-aws"
            raise UnsupportedError(told, remedy=remedy) from error
        raise EngineError(told) from error
