"""A server of BigQuery's, projects whose warehouse it is, and events in their raw tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views import Project
from cdc_views.formats.base import SourceLine
from cdc_views.table import Table
from helpers.dialect_cases import REAL
from helpers.tiny_project import CQL

if TYPE_CHECKING:
    from cdc_views_bigquery.engine import BigQueryEngine
    from services.bigquery import Store

    from cdc_views.storage.relation import RawTable

WAREHOUSE = "my-project.shop"


@dataclass(frozen=True)
class Served:
    """Where the server is, and what it holds."""

    url: str
    store: Store


def project(
    folder: Path, url: str | None, *, tables: list[dict[str, Any]] | None = None, warehouse: str = WAREHOUSE, **bigquery: Any
) -> Project:
    """Write and load a project, by default of the one table shop.orders; without `url` BigQuery is asked."""
    (folder / "schema.cql").write_text(CQL)
    body = {
        "name": "shop",
        "engine": "bigquery",
        "warehouse": warehouse,
        "bigquery": {**({"endpoint": url, "retry_for": "5s"} if url else {}), **bigquery},
        "tables": tables or [{"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}],
    }
    file = folder / "cdc_views.yml"
    file.write_text(json.dumps(body))
    return Project.load(file)


def real_case(folder: Path, cases: Path, case: str, url: str, **bigquery: Any) -> Table:
    """A project of one of the real cases."""
    named = {"name": REAL[case], "schema": str(cases / case / "schema.cql"), "raw": {"format": "cassandra-mutation"}}
    return project(folder, url, tables=[named], **bigquery).table(REAL[case])


def make_raw(engine: BigQueryEngine, raw: RawTable) -> None:
    """Make a raw table, without any view."""
    from cdc_views_bigquery import ddl
    from cdc_views_bigquery.ddl import full_name

    target = ddl.Target(raw.relation, full_name(raw), "")
    for made in (ddl.dataset(target.raw.rpartition(".")[0], engine.config), ddl.raw_table(target, engine.config)):
        engine.connection.run(made.sql, what="testing")


def load(table: Table, lines: Iterable[str], *, landed_at: int = 1_795_000_000_000_000) -> None:
    """Land events by one load job; the raw table is there."""
    facts = [fact for line in lines for fact in table.format.decode(SourceLine(line), table.schema)]
    with table.project.remote() as engine:
        engine.load(table.raw, table.relation.rows(facts, landed_at=landed_at))


def load_case(table: Table, cases: Path, case: str) -> None:
    """Land what the three replicas of a real case held."""
    load(table, (line for n in (1, 2, 3) for line in (cases / case / f"node{n}.jsonl").read_text().splitlines()))
