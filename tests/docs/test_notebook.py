"""The notebook of the examples runs from top to bottom, and shows what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.notebooks import code_cells, kept_output, shown_by

from cdc_views.cli import main

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "shop.ipynb"


@pytest.mark.heavy
def test_the_notebook_shows_what_it_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        "demo",
        "init --from schema.sql --name shop",
        *(f"land debezium {t}.jsonl --table {t}" for t in ("customers", "orders")),
    ):
        assert main(command.split()) == 0
    cells = code_cells(NOTEBOOK)
    kept = [kept_output(cell) for cell in cells]
    assert sum(map(bool, kept)) >= 5
    for cell, wanted, found in zip(cells, kept, shown_by(cells), strict=True):
        assert not wanted or found == wanted, "".join(cell["source"])
