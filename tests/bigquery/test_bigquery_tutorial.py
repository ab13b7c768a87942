"""The tutorial of BigQuery, block by block, against the server: its project file names it, and nothing else is changed."""

from __future__ import annotations

from pathlib import Path

from helpers.bigquery_warehouses import Served
from helpers.document_runs import run_document
from helpers.document_shell import Shell, environment

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorials" / "bigquery.md").read_text(encoding="utf-8")
LIMIT = "  maximum_bytes_billed: 1GiB\n"
"""The line of the project file that the server's address follows."""


def test_the_tutorial(tmp_path: Path, server: Served) -> None:
    assert TUTORIAL.count(LIMIT) == 1
    text = TUTORIAL.replace(LIMIT, f"{LIMIT}  endpoint: {server.url}\n")
    assert run_document(text, Shell(tmp_path, environment(ROOT))) == ""
