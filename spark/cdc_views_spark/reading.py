"""Raw tables and states as frames in the raw layout, also from files with older columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructType

from cdc_views.engines.base import Sources
from cdc_views.engines.state_plan import in_time, part_in
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import FileSet, Part, Source
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.stores import is_url
from cdc_views_spark.compile import Compiler
from cdc_views_spark.masks import Masks
from cdc_views_spark.raw_files import RawFiles, raw_files
from cdc_views_spark.settings import setting

_READS_RANGES_APART = "parquet.hadoop.vectored.io.enabled"
"""Reads several ranges of a file in other threads. It helps with remote files, but on a local disk a task waits longer for the
threads than for the bytes: 128 files of a state took half as long again to read."""

_LISTS_IN_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Above so many paths Spark looks at them in a job: for 136 files of a local disk a quarter of a second, else nothing."""

OF_PART = "_of_part"
"""In `facts_by_part`: the value of a fact's `Part`."""


def parts_of_sources(
    session: SparkSession, sources: Sources, *, drops_empty: bool = False
) -> dict[Source, Callable[[], DataFrame]]:
    """Return the frames that a plan's scans read; each is created on demand, because Spark first opens every file.

    Leaves out late facts (see `plan.purge.facts_in_time`), except in `Source.TAIL`.
    """
    masks = Masks(session, sources)
    facts = partial(_facts_of, masks, drops_empty=drops_empty)
    remembered = {s: partial(_files, masks, sources.parts.of(s)) for s in (Source.PURGED, Source.LATE)}
    return {**{s: partial(facts, s) for s in Source}, **remembered, Source.TAIL: partial(_landed, masks)}


def parts_of(sources: Sources) -> set[Part]:
    """Return the parts that hold facts."""
    return {part for part in Part if sources.parts.of([part]) or (part is Part.TAIL and sources.is_raw)}


def facts_by_part(session: SparkSession, sources: Sources) -> DataFrame:
    """Return the facts of all parts, late ones included, in the raw layout and with `OF_PART`."""
    frames, masks = [], Masks(session, sources)
    for part in sorted(parts_of(sources), key=list(Part).index):
        files = sources.parts.of([part])
        facts = _landed(masks) if part is Part.TAIL else _files(masks, files)
        frames.append(facts.withColumn(OF_PART, F.lit(part.value)))
    return reduce(DataFrame.unionAll, frames)


def _facts_of(masks: Masks, source: Source, *, drops_empty: bool) -> DataFrame:
    sources = masks.sources
    if Part.TAIL not in source.value or (sources.late_by is None and not sources.is_raw):
        return _files(masks, sources.parts.of(source))
    others, plan = sources.parts.without(Part.TAIL).of(source), in_time(sources, drops_empty=drops_empty)
    landed = Compiler(parts_of_sources(masks.session, sources)).dataframe(plan) if plan is not None else _landed(masks)
    return _files(masks, others).unionAll(landed) if others else landed


def _landed(masks: Masks) -> DataFrame:
    """The raw facts of `sources`: all, or only the tail."""
    sources = masks.sources
    if sources.is_raw:
        return raw_facts(masks.session, sources.raw, raw_files(sources.raw, version=sources.raw_version))
    return _files(masks, sources.parts.of(Source.TAIL))


def raw_facts(session: SparkSession, raw: RawTable, files: RawFiles | None) -> DataFrame:
    """Return the facts of a version; none without `files`, of a missing table.

    Plain files are read by name: Spark's jobs over Delta's log cost more than to read few facts.
    """
    if files is None:
        return session.createDataFrame(raw.relation.arrow_schema().empty_table())
    if files.are_plain:
        return _by_name(session, raw.relation, files.paths)
    reader = session.read.format("delta").option("versionAsOf", files.version)
    return in_layout(reader.load(raw.location), raw.relation)


def _files(masks: Masks, files: FileSet) -> DataFrame:
    """The files without the rows that deletion vectors hide. Missing columns and fields of structs are null."""
    session, sources = masks.session, masks.sources
    layout = sources.raw.relation.arrow_schema()
    if not files:
        return session.createDataFrame(layout.empty_table())
    if not files.masked:
        return _by_name(session, sources.raw.relation, files.paths)
    if masks.takes(files):
        return masks.unhidden(_by_name(session, sources.raw.relation, files.paths))
    # Delta's reader applies the vectors; a `_part` is read as a whole
    parts = sorted({part_in(path) for path in files.paths if sources.is_of_state(path)})
    stored = session.read.format("delta").option("versionAsOf", sources.state_version).load(sources.state)
    found = in_layout(stored.where(F.col(PART).isin(parts)), sources.raw.relation)
    others = tuple(path for path in files.paths if not sources.is_of_state(path))
    return found.unionAll(_by_name(session, sources.raw.relation, others)) if others else found


def _by_name(session: SparkSession, relation: Relation, paths: tuple[str, ...]) -> DataFrame:
    return _of_files(session, from_arrow_schema(relation.arrow_schema()).json(), paths)


@lru_cache(maxsize=64)
def _of_files(session: SparkSession, layout: str, paths: tuple[str, ...]) -> DataFrame:
    """Files of Delta tables never change: of those read lately Spark need not ask again how large they are."""
    reader = session.read.schema(StructType.fromJson(json.loads(layout)))
    if any(map(is_url, paths)):
        return reader.parquet(*paths)
    with setting(session, _LISTS_IN_A_JOB, str(len(paths) + 1)):
        return reader.option(_READS_RANGES_APART, "false").parquet(*paths)


def placed(session: SparkSession, sources: Sources) -> DataFrame:
    """Return the rows of the base with `FILE` and `POSITION`, hidden ones included."""
    rows = _by_name(session, sources.raw.relation, sources.paths(Source.BASE))
    places = [F.col("_metadata.file_path").alias(names.FILE), F.col("_metadata.row_index").alias(names.POSITION)]
    return rows.select("*", *places)


def in_layout(frame: DataFrame, relation: Relation) -> DataFrame:
    """Return the columns of the raw layout in order; missing columns and struct fields are null."""
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
    """The value with the fields of `wanted` at any depth, by name and in its order; a null struct or array stays null."""
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
