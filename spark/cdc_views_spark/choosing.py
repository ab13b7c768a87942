"""The facts that a read takes on Spark, and the strategy that fits them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from cdc_views.engines.base import Read, Sources
from cdc_views.engines.buckets import digits_of_base
from cdc_views.engines.footers import with_footers
from cdc_views.errors import UnsupportedError
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import Ask
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.rewrites import Choice, choose
from cdc_views.storage.relation import RawTable
from cdc_views.storage.stores import is_url
from cdc_views_spark.executors import are_this_python, is_local, why_no_duckdb
from cdc_views_spark.in_place import Spread
from cdc_views_spark.raw_files import RawFiles, bytes_of, raw_files
from cdc_views_spark.reading import facts_by_part, parts_of_sources, raw_facts

KERNEL_BYTES = 64_000_000
"""`auto` takes the kernel below so many bytes of files: 2 million facts, say. Spark's own plan pays 10 to 40 CPU seconds before
its first row. The kernel pays 5 µs more for each fact of a narrow table, which goes from the JVM to Python: 10 seconds at this
size. Of a wide table it pays less for each fact, too. Tasks that open the files pay less than either, and read a state's rows
without holding them: then the facts that they hold are to be so few (`Facts.held_bytes`)."""
BYTES_PER_TASK = 16_000_000
"""A task holds its facts in memory, some ten times the bytes of the files. Fewer bytes need no shuffle: one task takes all."""


@dataclass(frozen=True)
class Facts:
    """The facts of a read: those of `sources`, or all of raw. `files` are raw's, unless a state holds the facts."""

    session: SparkSession
    raw: RawTable
    sources: Sources | None
    files: RawFiles | None

    @classmethod
    def of(cls, session: SparkSession, read: Read) -> Facts:
        """Return the facts of a read, of one version of raw; raises `EngineError`."""
        if read.sources is None:
            return cls(session, read.raw, None, raw_files(read.raw))
        return cls.of_sources(session, read.sources)

    @classmethod
    def of_sources(cls, session: SparkSession, sources: Sources) -> Facts:
        """Return the facts of `sources`; raises `EngineError`."""
        files = raw_files(sources.raw, version=sources.raw_version) if sources.is_raw else None
        return cls(session, sources.raw, sources, files)

    @cached_property
    def bytes(self) -> int | None:
        """The bytes of the files; None if unknown."""
        if self.sources is None:
            return None if self.files is None else self.files.bytes
        ours = bytes_of(self.sources.parts.of(Part).paths)
        if self.sources.is_raw:
            return None if ours is None or self.files is None else ours + self.files.bytes
        return ours

    @cached_property
    def held_bytes(self) -> int | None:
        """The bytes of the facts that the kernel holds in memory at once; None if unknown.

        Where tasks open the files, rows of a state that need no reducing pass through.
        """
        split = None if self.sources is None else self.sources.split()
        # W3: with statics, a row waits for all rows of its partition
        if split is None or self.raw.relation.schema.statics or not self.are_opened:
            return self.bytes
        return bytes_of(split.of(Source.FRESH).paths)

    @property
    def is_scan(self) -> bool:
        """Whether rows show as they are stored: those of a state at rest without hidden ones."""
        split = None if self.sources is None else self.sources.split()
        return split is not None and not split.has(Source.FRESH) and not split.of(Source.BASE).masked

    @property
    def are_opened(self) -> bool:
        """Whether tasks of the kernel open the files themselves: they see them, and DuckDB reads them as they are."""
        sources = self.sources
        if sources is None or sources.is_raw:
            has_files = self.files is not None and self.files.are_plain
        else:
            has_files = bool(sources.paths())
        named = (self.raw.location, *(() if sources is None else sources.parts.of(Part).paths))
        # a task has a working folder of its own
        if any(map(is_url, named)):  # tasks read a store with our own client
            return has_files and are_this_python(self.session)
        return has_files and all(map(os.path.isabs, named)) and is_local(self.session)

    def by_source(self) -> dict[Source, Callable[[], DataFrame]]:
        """Return the frames that a plan's scans read."""
        if self.sources is None:
            return {Source.ALL: lambda: raw_facts(self.session, self.raw, self.files)}
        return parts_of_sources(self.session, self.sources)

    def known(self, ask: Ask) -> Ask:
        """Return `ask` with what the footers of raw files tell, if the driver sees the files."""
        return with_footers(ask, () if self.files is None or not self.files.are_plain else self.files.paths)

    def as_one(self) -> DataFrame:
        """Return all facts, for the kernel; with the part of each, where its SQL tells parts apart."""
        if self.sources is None or (self.sources.is_raw and self.sources.late_by is None):
            return raw_facts(self.session, self.raw, self.files)
        return facts_by_part(self.session, self.sources)


def chosen(facts: Facts, strategy: Strategy, *, kernel_bytes: int, ask: Ask) -> Choice:
    """Return the strategy of a read of `ask`, with the reason.

    Raises `UnsupportedError` if the kernel is asked for, and executors cannot run it.
    """
    if strategy not in (Strategy.AUTO, Strategy.KERNEL):
        return choose(strategy.value)
    no_kernel = (_why_not(facts, kernel_bytes) if strategy is Strategy.AUTO else "") or why_no_duckdb(facts.session)
    if not no_kernel:
        how = "as asked for" if strategy is Strategy.KERNEL else f"since {_size(facts.held_bytes)} of files take little memory"
        return Choice(Strategy.KERNEL.value, f"strategy kernel: DuckDB's SQL in {_where(facts)}, {how}")
    if strategy is Strategy.KERNEL:
        raise UnsupportedError(f"strategy kernel cannot run: {no_kernel}", remedy="install it there, or choose auto")
    plan = choose(strategy.value)
    return Choice(plan.strategy, f"{plan.why}; not the kernel, since {no_kernel}")


def tasks_of(facts: Facts) -> int:
    """Return in how many tasks the kernel runs where Spark hands them facts."""
    if facts.bytes is None:
        return int(facts.session.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    return max(1, -(-facts.bytes // BYTES_PER_TASK))


def spread_of(facts: Facts) -> Spread:
    """Return how the kernel spreads a read of files that its tasks open: one task with some threads, or one a core."""
    wanted = tasks_of(facts)
    if facts.sources is None or facts.bytes is None or facts.bytes < KERNEL_BYTES:
        return Spread(threads=wanted)
    cores = facts.session.sparkContext.defaultParallelism
    # a bucket of more digits than its files have would be read by several tasks
    digits = min((cores - 1).bit_length(), digits_of_base(facts.sources))
    return Spread(digits, threads=max(1, cores >> digits))


def _why_not(facts: Facts, kernel_bytes: int) -> str:
    held = facts.held_bytes
    if held is None:
        return "the bytes of its files are unknown"
    if held >= kernel_bytes:
        return f"{_size(held)} of files are too many: it is for less than {_size(kernel_bytes)}"
    if facts.is_scan and facts.bytes is not None and facts.bytes >= kernel_bytes:
        return f"{_size(facts.bytes)} of a state at rest are scanned, and handing their rows to Spark takes longer"
    return ""


def _where(facts: Facts) -> str:
    number = spread_of(facts).tasks if facts.are_opened else tasks_of(facts)
    if number == 1:
        return "one of Spark's tasks" + ", which opens the files" * facts.are_opened
    return f"{number} of Spark's tasks" + ", which open the files" * facts.are_opened


def _size(count: int | None) -> str:
    return "unknown bytes" if count is None else f"{count / 1_000_000:.1f} MB"
