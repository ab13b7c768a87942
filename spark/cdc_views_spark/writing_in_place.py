"""Commits of a state by DuckDB in Spark's tasks, which open the files themselves: each task writes the files of some buckets.

A tail is small beside the state. Spark's own plan spends more on its jobs than on the rows: it scans the base once for the rows
that a merge replaces and once for their facts, and writes each `_part` in a task.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_views.engines.base import StateWrite, Written
from cdc_views.engines.buckets import by_bucket
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.duckdb.masks import mask_of
from cdc_views.plan.compact import Step
from cdc_views.plan.parts import Source
from cdc_views_spark.choosing import Facts, spread_of
from cdc_views_spark.executors import are_this_python
from cdc_views_spark.raw_files import bytes_of
from cdc_views_spark.spreading import spread


def fits_tasks(session: SparkSession, write: StateWrite, *, kernel_bytes: int) -> bool:
    """Return whether tasks see the files of a commit, and hold less than `kernel_bytes` bytes of them in memory at once."""
    facts = Facts.of_sources(session, write.sources)
    if not (are_this_python(session) and facts.are_opened):
        return False
    # a merge takes from the base only the rows of new facts; other steps sort all that they read
    is_merge = write.step is Step.MERGE and write.sources.split() is not None
    held = bytes_of(write.sources.parts.of(Source.FRESH).paths) if is_merge else facts.bytes
    return held is not None and held < kernel_bytes


def write_in_tasks(session: SparkSession, write: StateWrite) -> Written:
    """See `Engine.write_state`; `fits_tasks` holds."""
    shared = spread_of(Facts.of_sources(session, write.sources))
    # files of fewer digits than the tasks' buckets would hold facts of two tasks
    digits = min(shared.digits, write.digits)
    mask_of(write.sources)  # once, and not by each task
    pieces = [replace(write, sources=some) for some in by_bucket(write.sources, digits)]
    if write.step is Step.MERGE:  # other buckets stay as they are
        pieces = [piece for piece in pieces if piece.sources.parts.has(Source.FRESH)]
    tasks = [_Piece(piece, threads=shared.threads, share=max(1, 80 // len(pieces))) for piece in pieces]
    return _together(spread(session, _written, tasks, sees=[write.target]))


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one task writes, with so many threads and this share (percent) of the machine's memory."""

    write: StateWrite
    threads: int
    share: int


def _written(piece: _Piece) -> Written:
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
