"""Rows through the whole of BigQuery: load job, SQL, results; compared with the oracle's."""

from __future__ import annotations

from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets

from cdc_views.engines.base import Read, ViewDefinition
from cdc_views.engines.exact import rows_of
from cdc_views.model.strategy import Strategy
from cdc_views.storage.relation import RawTable
from helpers.dialect_cases import Table, assert_same

PLACE = Datasets("my-project", "shop", "shop_raw", "shop_state")


def check_rows(table: Table, url: str, strategy: str) -> None:
    from cdc_views_bigquery.engine import BigQueryEngine

    raw = RawTable(f"{SCHEME}{PLACE.raw_table('t')}", table.relation)
    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=url)) as engine:
        engine.apply(ViewDefinition("my-project.shop", "t", raw, Strategy(strategy)))
        engine.load(raw, table.relation.rows(table.facts, landed_at=0))
        for now in table.instants:
            found = rows_of(table.relation, (), engine.read(Read(raw, now, strategy=Strategy(strategy))))
            assert_same(table.expected(now), found)
