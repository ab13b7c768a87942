"""A real project of BigQuery: facts as raw tables there, and what its views and reads show. Billed to whoever owns it.

`CDC_VIEWS_BIGQUERY_PROJECT` names the project, `CDC_VIEWS_BIGQUERY_LOCATION` where its datasets are made (US);
credentials are found by Google's client. Datasets are new ones, and deleted at the end.
`CDC_VIEWS_BIGQUERY_ENDPOINT` is a server of this machine in BigQuery's place, to try the tests themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets

from cdc_views.engines.base import Read, ViewDefinition
from cdc_views.engines.exact import rows_of
from cdc_views.errors import UnsupportedError
from cdc_views.model.strategy import Strategy
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import RawTable, Relation
from helpers.reading import Row, canonical_row

PROJECT, LOCATION, ENDPOINT = (f"CDC_VIEWS_BIGQUERY_{name}" for name in ("PROJECT", "LOCATION", "ENDPOINT"))
MOST_BYTES = "1GiB"
"""Of each job of these tests."""


def is_asked_for() -> bool:
    """Whether tests may use the project: it is named, and this is no continuous integration."""
    return bool(os.environ.get(PROJECT)) and not os.environ.get("CI")


@dataclass(frozen=True)
class RemoteProject:
    """Datasets of the project that are these tests' own."""

    place: Datasets
    settings: dict[str, Any]
    names: Iterator[int] = field(default_factory=count)

    @property
    def config(self) -> BigQueryConfig:
        """How jobs are sent."""
        return BigQueryConfig(**self.settings)

    def cases(self, strategies: Iterable[Strategy]) -> ProjectCases:
        """Return what shows facts by these strategies."""
        return ProjectCases(self, tuple(strategies))


@dataclass
class ProjectCases:
    """Shows facts through BigQuery; see `googlesql_cases.GoogleSqlCases`."""

    remote: RemoteProject
    strategies: tuple[Strategy, ...]
    reads: int = 0
    refused: list[UnsupportedError] = field(default_factory=list)

    def show(self, relation: Relation, facts: Iterable[Fact], *, now: int) -> list[Row]:
        """Return the oracle's rows once BigQuery read the same in the same order, and its view has as many."""
        from cdc_views_bigquery.engine import BigQueryEngine

        facts, name = list(facts), f"t{next(self.remote.names)}_{os.getpid()}"
        expected = latest_rows(relation.schema, facts, now=now)
        raw = RawTable(f"{SCHEME}{self.remote.place.raw_table(name)}", relation)
        with BigQueryEngine(self.remote.place, self.remote.config) as engine:
            try:
                engine.apply(ViewDefinition(self.remote.place.dataset(self.remote.place.views), name, raw, self.strategies[0]))
                rows = relation.rows(facts, landed_at=0)
                if rows.num_rows:
                    engine.load(raw, rows)
            except UnsupportedError as error:
                self.refused.append(error)
                return expected
            for strategy in self.strategies:
                found = list(rows_of(relation, (), engine.read(Read(raw, now, strategy=strategy))))
                self.reads += 1
                assert [*map(canonical_row, found)] == [*map(canonical_row, expected)], f"{strategy.value}: {found}"
        return expected


@contextmanager
def remote_project() -> Iterator[RemoteProject]:
    """Datasets of their own, deleted with all that is in them at the end."""
    from cdc_views_bigquery.client import Connection

    project, views = os.environ[PROJECT], f"cdc_views_test_{uuid4().hex[:8]}"
    settings: dict[str, Any] = {"maximum_bytes_billed": MOST_BYTES, "labels": {"purpose": "test"}}
    settings |= {"location": os.environ[LOCATION]} if os.environ.get(LOCATION) else {}
    settings |= {"endpoint": os.environ[ENDPOINT]} if os.environ.get(ENDPOINT) else {}
    remote = RemoteProject(Datasets(project, views, f"{views}_raw", f"{views}_state"), settings)
    try:
        yield remote
    finally:
        connection = Connection(project, remote.config)
        for dataset in (remote.place.views, remote.place.raw, remote.place.state):
            connection.client.delete_dataset(remote.place.dataset(dataset), delete_contents=True, not_found_ok=True)
        connection.close()
