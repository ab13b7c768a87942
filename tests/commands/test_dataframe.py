"""`Table.dataframe`: what `query` shows, as a lazy DataFrame of the user's own session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cdc_views_spark.engine import SparkEngine
from deltalake import DeltaTable
from helpers.projects import add, project_of
from helpers.tiny_project import SCHEMA

from cdc_views.errors import UnsupportedError
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.table import Table

TEXT = Scalar(Kind.TEXT)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table with three rows, two of them in its state."""
    monkeypatch.chdir(tmp_path)
    table = project_of(SCHEMA)
    add(table, [row(1, "open", at=1), row(2, "open", at=1)])
    table.materialize()
    add(table, [row(2, "paid", at=2), row(3, "open", at=3)])
    return table


def row(number: int, state: str, *, at: int) -> Fact:
    """A row with a state alone."""
    written = at * 1_000_000
    cells = {"state": Cell(written, state, serialize(TEXT, state))}
    return Fact(FactKind.ROW, (number,), (0,), liveness=Liveness(written), cells=cells)


def files_of(location: str, version: int | None = None) -> set[str]:
    """The names of a Delta table's files."""
    return {uri.rsplit("/", 1)[1] for uri in DeltaTable(location, version=version).file_uris()}


@pytest.mark.spark
def test_a_frame_shows_what_a_query_shows(orders: Table, spark_engine: SparkEngine) -> None:
    session = spark_engine.session.newSession()
    session.conf.set("spark.sql.constraintPropagation.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    settings = session.conf.getAll
    shown = orders.dataframe(session)
    opened, raw = {file.rsplit("/", 1)[1] for file in shown.inputFiles()}, orders.raw.location
    covered = files_of(raw, DeltaTable(raw).version() - 1)
    assert opened & files_of(orders.state_location)
    assert opened & files_of(raw) == files_of(raw) - covered, "what landed since"
    assert "InArrow" not in shown._jdf.queryExecution().toString(), "Spark's own plan"
    assert shown.columns == ["id", "line", "state", "note"]
    assert {r["id"]: r["state"] for r in shown.collect()} == {1: "open", 2: "paid", 3: "open"}
    few = orders.dataframe(session, columns=["state"], where="id >= 2", written_as_of="1970-01-01T00:00:02Z")
    assert sorted(r.state for r in few.collect()) == ["paid"]
    assert orders.dataframe(session, raw_only=True, limit=2).count() == 2
    add(orders, [row(4, "open", at=4)])
    assert (shown.count(), orders.dataframe(session).count()) == (3, 4), "a frame keeps to its files"
    assert session.conf.getAll.items() >= settings.items(), "a session's settings are its user's"
    kernel = orders.dataframe(session, strategy="kernel")
    assert "InArrow" in kernel._jdf.queryExecution().toString()


def test_what_is_no_session_is_told(orders: Table) -> None:
    class Session:
        """Somebody else's."""

    wrong: Any = Session()
    with pytest.raises(UnsupportedError, match="give a SparkSession"):
        orders.dataframe(wrong)
