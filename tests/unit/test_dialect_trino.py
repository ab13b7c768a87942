"""The facts that Trino's dialect declares, in a Trino of its own. `tests/properties/test_dialects.py` runs its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.dialect_trino import TrinoTables
from helpers.schemas import BLOB, FLOAT, INT, Subject, every_kind, table
from services import trino

from cdc_views.model.types import ListOf, MapOf, SetOf, TupleOf, VectorOf
from cdc_views.plan.build import Ask, output_names
from cdc_views.rules.cells import Liveness
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.sql import query_sql

live = pytest.mark.live
ROWS = "UNNEST(ARRAY[ROW(ROW(1, CAST(NULL AS integer))), ROW(ROW(1, 2))]) AS _rows(_x)"


@pytest.fixture
def tables(trino_server: trino.Trino) -> TrinoTables:
    return TrinoTables(trino_server)


@live
@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT greatest(1, NULL) AS x", None),
        ("SELECT array_max(filter(ARRAY[1, NULL, 3], _each -> _each IS NOT NULL)) AS x", 3),
        ("SELECT nan() = nan() AS x", False),
        ("SELECT ROW(1, NULL) IS NULL AS x", False),
        ("SELECT _x[1] AS x FROM UNNEST(ARRAY[ROW(ROW(7, 8))]) AS _rows(_x)", 7),
        (f"SELECT min_by(_x, json_format(CAST(_x AS JSON)))[2] AS x FROM {ROWS}", 2),
        ("SELECT json_format(CAST(ARRAY[nan(), -0e0] AS JSON)) AS x", '["NaN",-0.0]'),
    ],
)
def test_declared_facts_hold(tables: TrinoTables, sql: str, answer: Any) -> None:
    assert tables.query(sql)[0]["x"] == answer


@live
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT min(_x) FROM {ROWS}",
        "SELECT ROW(1, NULL) = ROW(1, NULL) AND ROW(1, NULL) < ROW(1, 2)",
        "SELECT CAST(ROW(X'00') AS JSON)",
    ],
)
def test_what_the_dialect_avoids_is_refused(tables: TrinoTables, sql: str) -> None:
    with pytest.raises(RuntimeError, match=r"NOT_SUPPORTED|TYPE_MISMATCH"):
        tables.query(sql)


@live
def test_the_least_spelling_of_any_nested_key_is_found(tables: TrinoTables) -> None:
    every = every_kind(frozen=True)
    kinds = [ListOf(every), SetOf(TupleOf((every, BLOB))), MapOf(BLOB, every), VectorOf(FLOAT, 2), TupleOf((BLOB, BLOB))]
    keys = {f"k{i}": kind for i, kind in enumerate(kinds)}
    relation = Subject(table("nested", partition={"case": INT}, clustering=keys, regulars={"v": INT})).relation
    nulls = tuple(None for _ in every.fields)
    clustering = ((nulls,), ((nulls, b"x"),), ((b"x", nulls),), (1.0, 2.0), (b"a", None))
    facts = [Fact(FactKind.ROW, (1,), clustering, Liveness(at)) for at in (1, 2)]
    tables.load("raw_t", relation.rows(facts, landed_at=0))
    ask = Ask(relation, as_of=1)
    (row,) = tables.query(query_sql(ask, dialect_name="trino", strategy="aggregate", table="raw_t"))
    assert row[dict(output_names(ask))["k4"]] == {"f0": b"a", "f1": None}


def test_a_changed_jar_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a-1.jar").write_bytes(b"jar")
    digest = "53cef4c7f16fb92bbd9d9cf9da0f4d57a6a44b3a5e1e8e3d9f1bb1f8d0a8f9d8"
    monkeypatch.setattr(trino, "pins", lambda: {"g:a:1": digest})
    with pytest.raises(RuntimeError, match=r"a-1\.jar is not the file"):
        trino.check(tmp_path)


def test_every_jar_is_pinned() -> None:
    assert len(trino.pins()) == 167
    assert {len(digest) for digest in trino.pins().values()} == {64}
