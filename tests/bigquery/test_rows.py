"""Rows through the whole of it: load job, SQL, results as the API writes them, exact values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.bigquery_rows import check_rows
from helpers.bigquery_warehouses import Served, load, load_case, make_raw, project, real_case
from helpers.dialect_cases import REAL, random_table
from helpers.schemas import KEYS, NARROW, SUBJECTS, Subject
from helpers.tiers import often
from helpers.tiny_project import NOW, event

from cdc_views.errors import UnsupportedError
from cdc_views.plan.rewrites import LOWERINGS
from cdc_views.quality.truth import CapturedTruth, agreement


@pytest.mark.heavy
@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, KEYS), ids=lambda s: s.name)
def test_random_histories_give_the_oracles_rows(server: Served, subject: Subject) -> None:
    check_rows(random_table(subject, cases=6, seed=3), server.url, "aggregate")


NO_VIEW = {"names3": "bigquery has no view columns called '`tick`'"}
"""Real cases whose view BigQuery cannot hold, and why; `query` reads them, too."""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", LOWERINGS)
@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_cassandras_rows(
    server: Served, tmp_path: Path, cassandra_cases: Path, case: str, when: str, strategy: str
) -> None:
    table = real_case(tmp_path, cassandra_cases, case, server.url)
    if case in NO_VIEW:
        with pytest.raises(UnsupportedError, match=NO_VIEW[case]):
            table.apply()
        with table.project.remote() as engine:
            make_raw(engine, table.raw)  # type: ignore[arg-type]
    else:
        table.apply()
    load_case(table, cassandra_cases, case)
    source = CapturedTruth.open(cassandra_cases / case / f"expected_{when}.json", as_of=None)
    result = table.query(as_of=source.as_of, strategy=strategy)
    assert len(result) == len(source.answers) > 0
    found = agreement(table.schema, source, result.rows())
    assert not found.broken, found.where


def test_no_real_case_is_left_out(cassandra_cases: Path) -> None:
    assert {folder.name for folder in cassandra_cases.iterdir()} == REAL.keys()


def test_rows_go_to_a_file_of_text_and_to_no_parquet(server: Served, tmp_path: Path) -> None:
    table = project(tmp_path, server.url).table("shop.orders")
    table.apply()
    load(table, [event(1), event(2)])
    out = tmp_path / "rows.jsonl"
    assert table.write(out=out, as_of=NOW).rows == 2
    assert {json.loads(line)["id"] for line in out.read_text().splitlines()} == {1, 2}
    for target in ({"out": tmp_path / "rows.parquet"}, {"into": tmp_path / "rows"}):
        with pytest.raises(UnsupportedError, match="engine bigquery writes no Parquet; take --format jsonl or csv"):
            table.write(**target)  # type: ignore[arg-type]
    assert not (tmp_path / "rows.parquet").exists()
