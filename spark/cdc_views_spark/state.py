"""States by Spark: facts of several files reduced as a DataFrame, committed by Delta's own writer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.engines.state_plan import in_time, order_of, plan_of, replaced_by
from cdc_views.errors import EngineError
from cdc_views.landing.delta import ConflictError, recorded
from cdc_views.plan.compact import BASE, LATE, PART, PURGED, RUN
from cdc_views.plan.nodes import Source, UnionAll
from cdc_views.plan.rewrites import prune
from cdc_views.relation import Relation
from cdc_views_spark.compile import Compiler

MOST_FILES = 4
"""How many files of the base may hold one bucket, before rows that stay are moved together again."""


def parts_of_sources(session: SparkSession, sources: Sources) -> dict[Source, DataFrame]:
    """Return what a plan's scans read of `sources`."""
    if sources.split is None:
        return {}
    base, fresh = replace(sources, runs=(), tail=()), replace(sources, base=())
    return {Source.BASE: facts_of_sources(session, base), Source.FRESH: facts_of_sources(session, fresh)}


def remembered_of_sources(session: SparkSession, sources: Sources) -> dict[Source, DataFrame]:
    """Return what a plan's scans read of a state that has purged, and the facts as they landed (rule M2)."""
    parts = {Source.PURGED: (PURGED, sources.purged), Source.LATE: (LATE, sources.late)}
    found = {}
    for part, (prefix, files) in parts.items():
        if files:
            stored = _state(session, sources).where(F.col(PART).startswith(prefix))
            found[part] = _in_layout(stored, sources.raw.relation)
    return found if sources.late_by is None else {**found, Source.TAIL: _landed(session, sources)}


def facts_of_sources(session: SparkSession, sources: Sources, *, drops_empty: bool = False) -> DataFrame:
    """Return the facts of `sources` in the raw layout, without those that landed late (see `plan.late.facts_in_time`)."""
    if sources.is_raw:
        return _in_time(session, sources, drops_empty=drops_empty)
    parts = []
    if sources.base or sources.runs:
        parts.append(_in_layout(_of_files(_state(session, sources), sources), sources.raw.relation))
    if sources.tail:
        parts.append(_in_time(session, sources, drops_empty=drops_empty))
    if not parts:
        return session.createDataFrame(sources.raw.relation.arrow_schema().empty_table())
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _state(session: SparkSession, sources: Sources) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", sources.state_version).load(sources.state)


def _landed(session: SparkSession, sources: Sources) -> DataFrame:
    """The raw facts of `sources`: all, or those of the tail."""
    relation = sources.raw.relation
    if sources.is_raw:
        stored = session.read.format("delta").option("versionAsOf", sources.raw_version).load(sources.raw.location)
        return _in_layout(stored, relation)
    # the files as they are: none is hidden by a deletion vector, and Delta's log need not be read again
    return _in_layout(session.read.schema(from_arrow_schema(relation.arrow_schema())).parquet(*sources.tail), relation)


def _in_time(session: SparkSession, sources: Sources, *, drops_empty: bool) -> DataFrame:
    landed, plan = _landed(session, sources), in_time(sources, drops_empty=drops_empty)
    if plan is None:
        return landed
    return Compiler(landed, remembered_of_sources(session, sources)).dataframe(prune(plan))


def _of_files(state: DataFrame, sources: Sources) -> DataFrame:
    """The base alone, the runs alone, or both: told by the first letter of `_part`, which Delta prunes files by."""
    if sources.parts:
        state = state.where(F.col(PART).isin(*sources.parts))
    if sources.base and sources.runs:
        return state.where((F.col(PART) < LATE) & ~F.col(PART).startswith(PURGED))
    return state.where(F.col(PART).startswith(BASE if sources.base else RUN))


def _in_layout(frame: DataFrame, relation: Relation) -> DataFrame:
    """The columns of the raw layout in order; those that the files do not have yet are null, struct fields too."""
    return frame.select(*(_column(frame, field.name, field.type) for field in relation.arrow_schema()))


def _column(frame: DataFrame, name: str, kind: pa.DataType) -> Column:
    wanted = from_arrow_type(kind)
    if name not in frame.columns:
        return F.lit(None).cast(wanted).alias(name)
    return F.col(f"`{name}`")


def write_state(session: SparkSession, write: StateWrite) -> None:
    """See `Engine.write_state`.

    Delta skips a write whose transaction number is not above the recorded one, without a word; so what is recorded
    is looked at afterwards.
    """
    root = plan_of(write)
    sources = write.sources
    parts = {**parts_of_sources(session, sources), **remembered_of_sources(session, sources)}
    compiler = Compiler(facts_of_sources(session, sources, drops_empty=True), parts)
    name, number = write.transaction
    if (recorded(DeltaTable(write.target), name) or -1) >= number:
        raise ConflictError(f"{write.target}: another run committed first")
    try:
        _commit(_facts(compiler, root, write), write)
    except PySparkException as error:
        if "Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise ConflictError(f"{write.target}: another run committed first") from error
        raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error
    if recorded(DeltaTable(write.target), name) != number:
        raise ConflictError(f"{write.target}: another run committed first")


def _facts(compiler: Compiler, root: UnionAll, write: StateWrite) -> DataFrame:
    """What to write. Rows that stay as they are need not move, while few files hold the rows of one bucket."""
    kept, *others = root.parts
    if not (write.is_base and others and _stays_in_place(write)):
        return _laid_out(compiler.dataframe(root), write)
    moved = compiler.dataframe(replace(root, parts=tuple(others)))
    in_place = _typed(compiler.dataframe(kept), write.sources.raw.relation)
    return in_place.unionAll(_laid_out(moved, write))


def _stays_in_place(write: StateWrite) -> bool:
    """Whether the base is split as the new one will be, and not yet into too many files for that."""
    if write.sources.split is None or not write.digits:
        return False
    parts = Counter(Path(file).parent.name for file in write.sources.base)
    is_alike = all(len(name) == len(f"{PART}={write.prefix}") + write.digits for name in parts)
    return is_alike and max(parts.values()) < MOST_FILES


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
    if (replaced := replaced_by(write)) is not None:
        writer = writer.option("replaceWhere", replaced)
    writer.partitionBy(PART).save(write.target)
