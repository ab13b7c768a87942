"""Commits of a state by DuckDB in Spark's tasks, which open the files themselves: each task writes the files of some buckets.

A tail is small beside the state. Spark's own plan spends more on its jobs than on the rows: it scans the base once for the rows
that a merge replaces and once for their facts, and writes each `_part` in a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_views.engines.base import Sources, StateWrite, Written
from cdc_views.engines.buckets import by_bucket
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.plan.compact import Step, coarser
from cdc_views.plan.parts import Part, Source
from cdc_views.storage.places import sizes_of
from cdc_views_spark.choosing import BYTES_PER_TASK, Facts, spread_of
from cdc_views_spark.executors import are_this_python
from cdc_views_spark.spreading import spread

_MOST_DIGITS = 8
"""Pieces of a commit: more would be planned for longer than they take."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task writes, with so many threads and this share (percent) of the machine's memory."""

    write: StateWrite
    threads: int
    share: int


def pieces_of(session: SparkSession, write: StateWrite, *, kernel_bytes: int) -> list[Piece]:
    """Return what each task writes; none if tasks do not see the files, or would hold `kernel_bytes` bytes of them at once."""
    facts = Facts.of_sources(session, write.sources)
    if not (are_this_python(session) and facts.are_opened):
        return []
    cores = session.sparkContext.defaultParallelism
    # a merge takes from the base only the rows of newer facts; other steps sort all that they read
    is_merge = write.step is Step.MERGE and write.sources.split() is not None
    sizes = _sizes(write.sources)
    if sizes is None or facts.bytes is None:
        return []
    found = _of_merge(facts, write) if is_merge else _of_buckets(write, sizes)
    holds = Source.FRESH if is_merge else Part
    held = sorted((_bytes(sizes, one.parts.of(holds).paths) for one in found), reverse=True)[:cores]
    if (facts.bytes if write.sources.is_raw else sum(held)) >= kernel_bytes:
        return []
    at_a_time = min(cores, len(found))
    return [Piece(replace(write, sources=one), threads=cores // at_a_time, share=80 // at_a_time) for one in found]


def write_in_tasks(session: SparkSession, pieces: Sequence[Piece]) -> Written:
    """See `Engine.write_state`; `pieces` are those of one commit."""
    return _together(spread(session, _written, pieces, sees=[pieces[0].write.target]))


def _of_merge(facts: Facts, write: StateWrite) -> list[Sources]:
    """The sources of a task a core, of those that have newer facts: other buckets stay as they are."""
    # files of fewer digits than the tasks' buckets would hold facts of two tasks
    digits = min(spread_of(facts).digits, write.digits)
    return [one for one in by_bucket(write.sources, digits) if one.parts.has(Source.FRESH)]


def _of_buckets(write: StateWrite, sizes: Mapping[str, int]) -> list[Sources]:
    """The sources of tasks of `BYTES_PER_TASK`, or of a bucket of the largest new files.

    Files of merges are small and of few digits, so several tasks read one, each its own facts.
    """
    found = [write.sources]
    for digits in range(1, 1 + min(coarser(write.digits), _MOST_DIGITS)):
        if max(_bytes(sizes, one.parts.of(Part).paths) for one in found) < BYTES_PER_TASK:
            break
        found = [one for one in by_bucket(write.sources, digits) if one.parts.of(Part)]
    return found


def _sizes(sources: Sources) -> dict[str, int] | None:
    """The bytes of each file; None if any is gone: the write itself says which."""
    try:
        return sizes_of(sources.parts.of(Part).paths)
    except OSError:
        return None


def _bytes(sizes: Mapping[str, int], paths: Iterable[str]) -> int:
    return sum(map(sizes.__getitem__, paths))


def _written(piece: Piece) -> Written:
    with closing(DuckDbEngine()) as engine:
        engine.connection.execute(f"SET threads = {piece.threads}")
        engine.connection.execute(f"SET memory_limit = '{piece.share}%'")
        return engine.write_state(piece.write)


def _together(each: Iterable[Written]) -> Written:
    # no two pieces replace rows of the same file: `by_bucket` never splits a file of the base
    files, replaced = list[str](), dict[str, Iterable[int]]()
    for one in each:
        files += one.files
        replaced |= one.replaced
    return Written(tuple(files), replaced)
