"""The generated text, kept in files: a change of SQL shows in review. `CDC_VIEWS_UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlglot
from helpers.golden_cases import CASES
from sqlglot import exp

from cdc_views.sql import ViewSql, generate
from cdc_views.sql.dialects import dialect, dialect_names

FOLDER = Path(__file__).parent
UPDATES = os.environ.get("CDC_VIEWS_UPDATE_GOLDEN") == "1"
RENDERED = [(name, case) for name in dialect_names() for case in CASES]


def text(name: str, case: str) -> str:
    """Return the view's statement, made anew."""
    return generate(CASES[case], dialect_name=name, strategy="aggregate", view=ViewSql("analytics", "orders"), table="raw_orders")


@pytest.mark.parametrize(("name", "case"), RENDERED)
def test_the_text_is_the_one_in_the_file(name: str, case: str) -> None:
    file = FOLDER / f"{name}__{case}.sql"
    found = text(name, case)
    if UPDATES:
        file.write_text(found)
    assert found == file.read_text(), f"{file.name} differs; see the module's docstring"
    assert found == text(name, case)


@pytest.mark.parametrize(("name", "case"), RENDERED)
def test_it_is_one_create_view_in_its_dialect(name: str, case: str) -> None:
    statements = sqlglot.parse((FOLDER / f"{name}__{case}.sql").read_text(), read=dialect(name).sqlglot_name)
    assert [type(s) for s in statements] == [exp.Create]
    assert statements[0].kind == "VIEW"
    assert [s.alias_or_name for s in statements[0].expression.selects] == [c.name for c in CASES[case].schema.columns]


def test_there_is_no_file_without_a_case() -> None:
    assert {f.stem for f in FOLDER.glob("*.sql")} == {f"{name}__{case}" for name, case in RENDERED}
