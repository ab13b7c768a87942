"""What the state's benchmark runs on: a raw table, tails to land, reads consumed by a hash of every column."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from generate import MACRO, NOW, SCHEMA, cells_sql

from cdc_views.engines.base import Engine, Read, ValueForm, ask_of
from cdc_views.engines.duckdb.engine import pinned, sql_over
from cdc_views.landing.delta import raw_log_settings
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import build
from cdc_views.plan.parts import Source as PlanSource
from cdc_views.plan.rewrites import lowered
from cdc_views.state import sources_of
from cdc_views.storage.relation import RawTable, Relation

FACTS_A_KEY = 2


class Source:
    """A raw table of FACTS_A_KEY facts a key, and tails of facts whose keys are uniform."""

    def __init__(self, folder: Path, *, keys: int) -> None:
        self.keys, self.facts = keys, FACTS_A_KEY * keys
        self._connection = duckdb.connect()
        self._connection.execute(MACRO)
        self._connection.execute("SET threads = 2")
        self.raw = RawTable(str(folder / "raw"), Relation(SCHEMA))
        Path(self.raw.location).mkdir(parents=True)
        self._connection.execute(f"COPY ({self._sql(0, self.facts)}) TO '{self.raw.location}/0.parquet' (FORMAT parquet)")
        convert_to_deltalake(self.raw.location, configuration=raw_log_settings())

    def land(self, count: int) -> None:
        """Land so many facts in one commit, written later than all others."""
        self._append(self._sql(self.facts, count))
        self.facts += count

    def land_again(self, count: int) -> None:
        """Land so many facts that overlap in time with all others: half repeat landed ones, half were written between them."""
        half = count // 2
        self._append(self._sql(self.facts - half, half))
        self._append(self._sql(self.facts, half, earlier=self.facts // 2))
        self.facts += half

    def a_key(self) -> dict[str, int]:
        """The row key of the fact that was landed last."""
        (found,) = self._connection.sql(self._sql(self.facts - 1, 1)).to_arrow_table().select(["account", "item"]).to_pylist()
        return found

    def _append(self, sql: str) -> None:
        rows = self._connection.sql(sql).to_arrow_table()
        write_deltalake(self.raw.location, rows.cast(self.raw.relation.arrow_schema()), mode="append")

    def _sql(self, first: int, count: int, *, earlier: int = 0) -> str:
        events = (
            f"SELECT i, hash(i * 7 + 1) % {self.keys} AS k, 'row' AS kind, 1700000000000000 + i - {earlier} AS w "
            f"FROM range({first}, {first + count}) AS t(i)"
        )
        return f"WITH events AS ({events}) {cells_sql(0)}"


def timed(action: Callable[[], Any], *, runs: int = 1) -> tuple[float, Any]:
    """Return the median seconds, and the last result."""
    seconds, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


class Reader:
    """Full reads by one engine: of the hybrid view and of plain values, consumed by a hash of every column."""

    def __init__(self, engine: Engine, raw: RawTable, state: str) -> None:
        self.engine, self.raw, self.state = engine, raw, state

    def view(self) -> tuple[Any, ...]:
        """The hybrid view's output as `query` reads it; what there is to read is looked up each time."""
        read = self._hybrid()
        if self.engine.name == "spark" and self.engine.choice(read).strategy == Strategy.KERNEL.value:
            return self._hashed(self.engine.frame(replace(read, strategy=Strategy.KERNEL)))  # type: ignore[attr-defined]
        return self.consumed(read)

    def planned(self) -> tuple[Any, ...]:
        """The same by Spark's own plan, as a `Table.dataframe` reads it."""
        return self._hashed(self.frame(self._hybrid()))

    def _hybrid(self) -> Read:
        return Read(self.raw, as_of=NOW, is_ordered=False, sources=sources_of(self.raw, self.state))

    def raw_view(self, raw: RawTable | None = None) -> tuple[Any, ...]:
        """The same from raw alone."""
        return self.consumed(Read(raw or self.raw, as_of=NOW, is_ordered=False))

    def consumed(self, read: Read) -> tuple[Any, ...]:
        """The rows in the forms that views show."""
        if self.engine.name == "spark":
            return self._hashed(self.frame(read))
        return self._rows(f"({self.text(read)})")

    def frame(self, read: Read) -> Any:
        """Spark's DataFrame of what a view shows."""
        from cdc_views_spark.compile import Compiler
        from cdc_views_spark.reading import parts_of_sources

        session = self.engine.session  # type: ignore[attr-defined]
        plan = lowered(build(replace(ask_of(read), is_exact=False)))
        if read.sources is None:
            return Compiler({PlanSource.ALL: lambda: self.engine.raw(read.raw)}).dataframe(plan)  # type: ignore[attr-defined]
        return Compiler(parts_of_sources(session, read.sources)).dataframe(plan)

    def text(self, read: Read) -> str:
        """DuckDB's SQL of what a view shows."""
        return sql_over(pinned(read), replace(read, strategy=Strategy.AGGREGATE, form=ValueForm.SHOWN), is_pretty=False)

    def plain(self, location: str) -> tuple[Any, ...]:
        """A plain table of the same values, consumed the same way."""
        if self.engine.name == "spark":
            return self._hashed(self.engine.session.read.format("delta").load(location))  # type: ignore[attr-defined]
        files = ", ".join(f"'{uri}'" for uri in DeltaTable(location).file_uris())
        return self._rows(f"read_parquet([{files}])")

    def stored(self) -> tuple[Any, ...]:
        """The state's own files, every leaf of them, consumed the same way."""
        found = sources_of(self.raw, self.state)
        assert found is not None
        if self.engine.name == "spark":
            return self._hashed(self.engine.session.read.parquet(*found.paths()))  # type: ignore[attr-defined]
        files = ", ".join(f"'{path}'" for path in found.paths())
        return self._rows(f"read_parquet([{files}], union_by_name = true)")

    def keep(self, location: str) -> None:
        """Write what the view shows as a plain table."""
        read = Read(self.raw, as_of=NOW, is_ordered=False, sources=sources_of(self.raw, self.state))
        if self.engine.name == "spark":
            rows = self.frame(read).toArrow()
        else:
            rows = self.engine.connection.sql(self.text(read)).to_arrow_table()  # type: ignore[attr-defined]
        write_deltalake(location, rows)

    def _hashed(self, frame: Any) -> tuple[Any, ...]:
        sums = [f"sum(shiftright(xxhash64(`{c}`), 24))" for c in frame.columns]
        return tuple(frame.selectExpr("count(*)", *sums).collect()[0])

    def _rows(self, table: str) -> tuple[Any, ...]:
        sql = f"SELECT count(*), sum(hash(COLUMNS(*)) >> 24) FROM {table}"
        return tuple(self.engine.connection.execute(sql).fetchall()[0])  # type: ignore[attr-defined]


class Watched:
    """An engine that notes how many rows leave it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.rows_out = engine, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def rows(self, *arguments: Any) -> Any:
        return self._noted(self._engine.rows(*arguments))

    def read(self, *arguments: Any) -> Any:
        return self._noted(self._engine.read(*arguments))

    def _noted(self, table: Any) -> Any:
        self.rows_out.append(table.num_rows)
        return table


@contextmanager
def small_results(engine: Engine, *, size: str = "16m") -> Iterator[None]:
    """Let Spark fail a job that sends more than that to its driver; the view's rows are several hundred MB."""
    if engine.name != "spark":
        yield
        return
    session = engine.session  # type: ignore[attr-defined]
    conf = session.sparkContext._jsc.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", size)
    try:
        with pytest.raises(Exception, match="maxResultSize"):
            session.range(8_000_000).collect()
        yield
    finally:
        conf.set("spark.driver.maxResultSize", before)


def open_engine(name: str, folder: Path) -> Engine:
    """Return an engine on two cores."""
    if name == "duckdb":
        from cdc_views.engines.duckdb.engine import DuckDbEngine

        engine = DuckDbEngine()
        engine.connection.execute("SET threads = 2")
        return engine
    from cdc_views_spark.engine import SparkEngine
    from cdc_views_spark.session import open_session

    return SparkEngine(open_session(warehouse=folder / "warehouse", memory="6g"))
