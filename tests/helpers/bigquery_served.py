"""`bigquery_loop` by way of the engine and Google's client: load jobs, scripts and reads go to a server of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets

from cdc_views.engines.base import Read, Sources, ViewDefinition
from cdc_views.engines.exact import rows_of
from cdc_views.engines.warehouses import StateDefinition, StateRun
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import RawTable
from helpers.bigquery_loop import SECOND, Loop
from helpers.bigquery_values import Table
from helpers.dialect_cases import assert_same

if TYPE_CHECKING:
    from cdc_views_bigquery.engine import BigQueryEngine
    from services.bigquery import Store

    from helpers.schemas import Subject

PLACE = Datasets("my-project", "shop", "shop_raw", "shop_state")
NAME = "t"


@dataclass
class ServedLoop(Loop):
    """Lands by load jobs, runs by `materialize`, reads by the engine."""

    warehouse: BigQueryEngine | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        from helpers.lateness import Ages

        self.ages = Ages(self.subject.schema, self.subject.order)
        self.raw = RawTable(f"{SCHEME}{PLACE.raw_table(NAME)}", self.subject.relation)
        self.opened.apply(ViewDefinition("my-project.shop", NAME, self.raw))

    @property
    def opened(self) -> BigQueryEngine:
        assert self.warehouse is not None
        return self.warehouse

    @property
    def definition(self) -> StateDefinition:
        return StateDefinition(NAME, self.raw, serving=self.serving, lateness=self.lateness)

    def land(self, *facts: Fact, at: int) -> None:
        self.opened.load(self.raw, self.subject.relation.rows(facts, landed_at=at * SECOND))
        self.ages.land(facts)

    def materialized(self, now: int, *, full: bool = False) -> StateRun:
        """Run `materialize` at `now` (epoch seconds)."""
        assert self.store is not None
        self.store.now = now * SECOND
        done = self.opened.materialize(self.definition, full=full)
        if done.is_settled and self.lateness is not None:
            self.ages.purge(horizon=now - self.lateness)
        return done

    def check(self, *, now: int, source: str = "") -> None:
        """What a read takes shows what the oracle shows; `source` is a table instead of state and tail."""
        standing = self.opened.state(NAME, self.raw)
        name = source or (standing.facts if standing is not None else "")
        sources = Sources(RawTable(f"{SCHEME}{name}", self.subject.relation), 0) if name else None
        found = rows_of(self.subject.relation, (), self.opened.read(Read(self.raw, now, sources=sources)))
        assert_same(self._spelled(self.expected(now=now)), self._spelled(found))

    def table(self, suffix: str) -> Table:
        assert self.store is not None
        name = f"my-project.shop_state.{NAME}{suffix}" if suffix else f"my-project.shop_state.{self.serving}"
        columns, content = self.store.sql._tables[name]
        return Table(columns, [list(row.cell) for row in content.table_data.row])

    def kept(self) -> dict[str, Any]:
        names = ("__state", "__seen", *([""] if self.serving else []))
        return {name: sorted(map(repr, self.table(name).rows)) for name in names}


@contextmanager
def served_loop(url: str, store: Store, subject: Subject, **options: Any) -> Iterator[ServedLoop]:
    """A loop over an engine that is closed at the end."""
    from cdc_views_bigquery.engine import BigQueryEngine

    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=url, retry_for="5s", buckets=3)) as engine:
        yield ServedLoop(store.sql, subject, warehouse=engine, store=store, **options)
