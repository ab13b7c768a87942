"""States by Spark: facts of several files reduced as a DataFrame, committed by Delta's own writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.engines.state_plan import in_time, kept_and_moved, order_of, plan_of, replaced_by
from cdc_views.plan.compact import FEWER_DIGITS, PART
from cdc_views.plan.nodes import UnionAll
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.rewrites import prune
from cdc_views.storage.relation import Relation
from cdc_views_spark.commits import committing, setting
from cdc_views_spark.compile import Compiler
from cdc_views_spark.layout import in_layout

_READS_RANGES_APART = "parquet.hadoop.vectored.io.enabled"
"""Several ranges of a file at once, in other threads: a gain where they come from afar, but of a file on a disk a task
waits longer for the threads than for the bytes; 128 files of a state took half as long again to read."""
_CODEC = "lz4_raw"
"""The fastest to read, as DuckDB writes it; of Spark's default, Snappy, a scan takes an eighth longer."""
_DICTIONARIES = "parquet.enable.dictionary"
"""Most values of a state differ: dictionaries are made of them and thrown away, a quarter of what a new base costs. Files
are as large without. Delta hands a write only what the session is set to, no option of this kind."""
_PLAIN = f"{PART}={Part.PLAIN.value}"
MOST_FILES = 4
"""How many files of the base may hold one bucket, before rows that stay are moved together again."""


def parts_of_sources(
    session: SparkSession, sources: Sources, *, drops_empty: bool = False
) -> dict[Source, Callable[[], DataFrame]]:
    """Return what a plan's scans read of `sources`, each made where it is called: Spark looks at every file first.

    Facts that landed late are left out (see `plan.late.facts_in_time`), except from `Source.TAIL`.
    """
    facts = partial(_facts_of, session, sources, drops_empty=drops_empty)
    remembered = {s: partial(_files, session, sources, sources.paths(s)) for s in (Source.PURGED, Source.LATE)}
    return {**{s: partial(facts, s) for s in Source}, **remembered, Source.TAIL: partial(_landed, session, sources)}


def _facts_of(session: SparkSession, sources: Sources, source: Source, *, drops_empty: bool) -> DataFrame:
    if Part.TAIL not in source.value or (sources.late_by is None and not sources.is_raw):
        return _files(session, sources, sources.paths(source))
    others = sources.parts.without(Part.TAIL).of(source).paths
    in_time = _in_time(session, sources, drops_empty=drops_empty)
    return _files(session, sources, others).unionAll(in_time) if others else in_time


def _landed(session: SparkSession, sources: Sources) -> DataFrame:
    """The raw facts of `sources`: all, or those of the tail."""
    if sources.is_raw:
        stored = session.read.format("delta").option("versionAsOf", sources.raw_version).load(sources.raw.location)
        return in_layout(stored, sources.raw.relation)
    return _files(session, sources, sources.paths(Source.TAIL))


def _files(session: SparkSession, sources: Sources, files: tuple[str, ...]) -> DataFrame:
    """The files as they are: of none a deletion vector hides rows, and Delta's log need not be read again.

    What a file lacks, columns and fields of structs, is null.
    """
    layout = sources.raw.relation.arrow_schema()
    if not files:
        return session.createDataFrame(layout.empty_table())
    reader = session.read.schema(from_arrow_schema(layout))
    if not any("://" in file for file in files):
        reader = reader.option(_READS_RANGES_APART, "false")
    return reader.parquet(*files)


def _in_time(session: SparkSession, sources: Sources, *, drops_empty: bool) -> DataFrame:
    plan = in_time(sources, drops_empty=drops_empty)
    if plan is None:
        return _landed(session, sources)
    return Compiler(parts_of_sources(session, sources)).dataframe(prune(plan))


def write_state(session: SparkSession, write: StateWrite) -> None:
    """See `Engine.write_state`."""
    root = plan_of(write)
    compiler = Compiler(parts_of_sources(session, write.sources, drops_empty=True))
    with committing(write), setting(session, _DICTIONARIES, "false"):
        _commit(_facts(compiler, root, write), write)


def _facts(compiler: Compiler, root: UnionAll, write: StateWrite) -> DataFrame:
    """What to write. Rows that stay as they are need not move, while few files hold the rows of one bucket."""
    kept, others = kept_and_moved(root)
    if not (write.into is Part.BASE and kept and others and _stays_in_place(write)):
        return _laid_out(compiler.dataframe(root), write)
    moved = _laid_out(compiler.dataframe(replace(root, parts=others)), write)
    in_place = (_typed(compiler.dataframe(part), write.sources.raw.relation) for part in kept)
    return reduce(DataFrame.unionAll, in_place, moved)


def _stays_in_place(write: StateWrite) -> bool:
    """Whether the base is split as the new one will be, and not yet into too many files for that."""
    if write.sources.split() is None or not write.digits:
        return False
    parts = Counter(Path(file).parent.name for file in write.sources.paths(Source.BASE))
    fewer = max(write.digits - FEWER_DIGITS, 0)
    is_alike = all(_digits(name) == (write.digits if name.startswith(_PLAIN) else fewer) for name in parts)
    return is_alike and max(parts.values()) < MOST_FILES


def _digits(folder: str) -> int:
    """How many digits follow the letter in a folder `_part=…`."""
    return len(folder) - len(_PLAIN)


def _laid_out(facts: DataFrame, write: StateWrite) -> DataFrame:
    """One file for each `_part`, rows of a partition side by side; the types that the raw layout has."""
    relation = write.sources.raw.relation
    order = [F.col(f"`{name}`") for name in order_of(relation)]
    placed = _typed(facts, relation)
    spread = placed.repartition(F.col(PART)) if write.digits else placed.coalesce(1)
    return spread.sortWithinPartitions(*order)


def _typed(facts: DataFrame, relation: Relation) -> DataFrame:
    typed = [F.col(f"`{f.name}`").cast(from_arrow_type(f.type)).alias(f.name) for f in relation.arrow_schema()]
    return facts.select(*typed, F.col(PART))


def _commit(facts: DataFrame, write: StateWrite) -> None:
    name, number = write.transaction
    writer = facts.write.format("delta").mode("overwrite" if write.replaced else "append")
    writer = writer.option("txnAppId", name).option("txnVersion", number).option("mergeSchema", "true")
    writer = writer.option("compression", _CODEC)
    if (replaced := replaced_by(write)) is not None:
        writer = writer.option("replaceWhere", replaced)
    writer.partitionBy(PART).save(write.target)
