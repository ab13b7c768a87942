"""`SELECT *` over a table, by SQL of the user, shows what its query shows: random histories, with and without a state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.histories import NOW, histories
from helpers.projects import add, project_of
from helpers.reading import SEED
from helpers.schemas import BIGINT, BOOLEAN, INT, TEXT, TIMESTAMP, UUID, Subject
from helpers.schemas import table as schema_of

from cdc_views.formats.base import WriteOrder
from cdc_views.model.types import EMPTY, LogicalType, is_text
from cdc_views.operations.statements import run_statement
from cdc_views.table import Table

REGULARS = {"n": BIGINT, "t": TEXT, "at": TIMESTAMP, "b": BOOLEAN, "u": UUID}
SUBJECTS = (
    Subject(schema_of("cells", partition={"case": INT}, clustering={"c": INT}, statics={"s": TEXT}, regulars=REGULARS)),
    Subject(schema_of("rows", partition={"case": INT, "k": TEXT}, regulars={"n": BIGINT, "t": TEXT}), WriteOrder.LOG_POSITION),
)
"""Columns that a view shows in the types that `query` prints."""


def shown(rows: Any) -> list[str]:
    return sorted(repr(row) for row in rows)


def as_viewed(made: Table, rows: Any, texts: Any) -> Iterator[dict[str, str]]:
    """Yield the texts of rows; a view has no value of 0 bytes but a text's, and no time that is out of its type's range."""
    for row, text in zip(rows, texts, strict=True):
        gone = {name for name, value in row.items() if is_null(made.schema.column(name).type, value)}
        yield {name: "null" if name in gone else shown for name, shown in text.items()}


def is_null(kind: LogicalType, value: Any) -> bool:
    return (value is EMPTY and not is_text(kind)) or (kind == TIMESTAMP and value is not None and abs(value) * 1000 >= 1 << 63)


def check(made: Table, *engine: str) -> None:
    """Compare texts, JSON's and others, and numbers of rows."""
    name, how = made.name, {"as_of": NOW, "engine": engine[0] if engine else None}
    asked, one = run_statement(made.project, f"SELECT * FROM {name}", **how), made.query(**how)
    assert shown(asked.json_rows()) == shown(as_viewed(made, one.rows(), one.json_rows()))
    assert shown(asked.shown_rows()) == shown(as_viewed(made, one.rows(), one.shown_rows()))
    joined = f"SELECT count(*) AS n FROM {name} a JOIN {name} b ON a.`case` = b.`case`"
    (count,) = run_statement(made.project, joined if engine else joined.replace("`", '"'), **how)
    sizes: dict[int, int] = {}
    for row in one:
        sizes[row["case"]] = sizes.get(row["case"], 0) + 1
    assert count["n"] == sum(size * size for size in sizes.values())


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A project of the subject's table; what its early facts are is in a state."""
    monkeypatch.chdir(tmp_path)
    subject: Subject = request.param
    made = project_of(subject.schema, subject.order.name.lower())
    monkeypatch.setattr(type(made.project), "tables", (made,))
    facts = histories(subject, cases=60, seed=SEED)
    add(made, facts.early)
    made.materialize(now=NOW)
    add(made, facts.late, landed_at=1)
    return made


@pytest.mark.parametrize("made", SUBJECTS, ids=lambda one: one.name, indirect=True)
def test_all_of_a_table_is_what_its_query_shows(made: Table) -> None:
    check(made)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
@pytest.mark.parametrize("made", SUBJECTS[:1], ids=lambda one: one.name, indirect=True)
def test_on_spark_too(made: Table) -> None:
    check(made, "spark")
