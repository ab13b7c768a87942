"""`columns:` of the project file: views and Arrow show a column in the type asked for, and never lose a digit unsaid."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from helpers.command_line import CommandLine, table, write_project

from cdc_views import Project
from cdc_views.errors import ConfigError

NAME = "public.t"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table whose `amount` and `big` are shown as numbers."""
    monkeypatch.chdir(tmp_path)
    Path("t.sql").write_text(
        "create table public.t (id int primary key, amount numeric(12,2), free numeric, big bigint, ts timestamp);"
    )
    write_project(table(NAME, "t.sql", columns={"amount": "decimal(18,2)", "free": "decimal(6,1)", "big": "decimal(20, 0)"}))
    return CommandLine(capsys)


def event(number: int, **row: object) -> str:
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t", "lsn": number}
    return json.dumps({"op": "c", "source": source, "before": None, "after": {"id": number, **row}})


def test_the_view_casts_and_arrow_agrees(run: CommandLine) -> None:
    assert run.land(NAME, event(1, amount="12.50", free="1.5", big=7), event(2)).code == 0
    assert run("apply").code == 0
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        rows = connection.sql("SELECT id, amount, free, big FROM public.t ORDER BY id")
        assert [str(kind) for kind in rows.types] == ["INTEGER", "DECIMAL(18,2)", "DECIMAL(6,1)", "DECIMAL(20,0)"]
        assert rows.fetchall() == [(1, Decimal("12.50"), Decimal("1.5"), Decimal(7)), (2, None, None, None)]
    arrow = Project.load("cdc_views.yml").table(NAME).query().to_arrow()
    assert [str(arrow.schema.field(name).type) for name in ("amount", "free", "big")] == [
        "decimal128(18, 2)", "decimal128(6, 1)", "decimal128(20, 0)",
    ]  # fmt: skip
    assert arrow.column("amount").to_pylist() == [Decimal("12.50"), None]
    assert [row["amount"] for row in run.query(NAME)] == [Decimal("12.50"), None]


def test_a_value_that_does_not_fit_fails_the_read_and_is_no_null(run: CommandLine) -> None:
    assert run.land(NAME, event(1, free="123456789.5")).code == 0
    assert run("apply").code == 0
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection, pytest.raises(duckdb.ConversionException):
        connection.sql("SELECT free FROM public.t").fetchall()
    with pytest.raises(ConfigError, match="widen it under `columns:`"):
        Project.load("cdc_views.yml").table(NAME).query().to_arrow()
    assert [row["free"] for row in run.query(NAME)] == [Decimal("123456789.5")]


@pytest.mark.parametrize(
    ("dialect", "cast"),
    [
        ("spark", "THEN CAST(amount AS DECIMAL(18, 2))"),
        # Outside the CASE, where an engine casts no value that the row does not show.
        ("duckdb", "END AS DECIMAL(18, 2)) AS amount"),
    ],
)
def test_generated_views_cast(run: CommandLine, dialect: str, cast: str) -> None:
    text = run("generate", "--dialect", dialect).out
    assert cast in text
    assert "AS DECIMAL(18, 2))" in text


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"amount": "decimal(18,2"}, "cdc_views.yml:1: tables[0].columns.amount is 'decimal(18,2'; one of these types"),
        ({"amount": "decimal"}, "a precision of up to 38 digits and a scale"),
        ({"amount": "decimal(40,2)"}, "a precision of up to 38 digits and a scale"),
        ({"amount": "int); drop table x"}, "one of these types"),
        ({"amount": "date"}, "one of these types"),
        ({"amont": "decimal(18,2)"}, "has no column 'amont'; did you mean 'amount'?"),
        ({"amount": "decimal(18,1)"}, "has 2 digits after the point, which decimal(18,1) would round"),
        ({"amount": "bigint"}, "whose fractions bigint would round"),
        ({"ts": "text"}, "is of type datetime, which stays as it is"),
        ({"id": "text"}, "is part of the key"),
    ],
)
def test_a_type_that_cannot_be_is_refused_before_anything_runs(run: CommandLine, columns: dict[str, str], expected: str) -> None:
    write_project(table(NAME, "t.sql", columns=columns))
    answer = run("apply")
    assert (answer.code, answer.out) == (2, "")
    assert expected in answer.err
