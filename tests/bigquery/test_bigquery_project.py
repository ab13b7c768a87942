"""BigQuery itself: rows of random histories, real cases and every semantic case, and the commands, in a real project.

The semantic cases are those of `tests/semantics` with `bigquery-project` in their names. How to run these: CONTRIBUTING.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.bigquery_warehouses import load, load_case, project
from helpers.dialect_cases import REAL, random_table, real_table
from helpers.reading import STRATEGIES
from helpers.schemas import SUBJECTS, Subject
from helpers.tiny_project import event

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.quality.truth import CapturedTruth, agreement

if TYPE_CHECKING:
    from helpers.bigquery_project import RemoteProject

pytestmark = [pytest.mark.live, pytest.mark.bigquery_project]
HISTORIES = 29
"""Of each subject, as in tests/helpers/dialect_engines.py."""


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_random_histories_give_the_oracles_rows(bigquery_project: RemoteProject, subject: Subject) -> None:
    table, cases = random_table(subject, cases=HISTORIES), bigquery_project.cases(STRATEGIES)
    for now in table.instants:
        cases.show(table.relation, table.facts, now=now)
    assert (cases.reads, cases.refused) == (len(STRATEGIES) * len(table.instants), [])


@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_cassandras_rows(
    bigquery_project: RemoteProject, tmp_path: Path, cassandra_cases: Path, case: str
) -> None:
    named = {"name": REAL[case], "schema": str(cassandra_cases / case / "schema.cql"), "raw": {"format": "cassandra-mutation"}}
    table = _project(tmp_path, bigquery_project, tables=[named]).table(REAL[case])
    table.apply()
    load_case(table, cassandra_cases, case)
    for when in ("early", "late"):
        file = cassandra_cases / case / f"expected_{when}.json"
        truth = json.loads(file.read_text())
        for strategy in STRATEGIES:
            result = table.query(as_of=truth["as_of"], strategy=strategy.value)
            assert len(result) == len(truth["rows"]) > 0
            found = agreement(table.schema, CapturedTruth.open(file), result.rows())
            assert not found.broken, found.where


@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_the_oracles_rows(bigquery_project: RemoteProject, cassandra_cases: Path, case: str) -> None:
    table, cases = real_table(cassandra_cases, case), bigquery_project.cases(STRATEGIES)
    cases.show(table.relation, table.facts, now=table.instants[0])
    assert (cases.reads, cases.refused) == (len(STRATEGIES), [])


def test_the_commands_work(bigquery_project: RemoteProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = _project(tmp_path, bigquery_project)

    def command(*arguments: str) -> tuple[int, list[dict[str, object]]]:
        code = main([*arguments, "--format", "jsonl", "--project", str(loaded.file)])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert command("plan")[1][0]["change"] == "create"
    assert command("apply")[0] == 0
    load(loaded.table("shop.orders"), [event(1), event(2, state="paid"), event(2, state="old", node="n2")])
    code, rows = command("query", "shop.orders", "--where", "state = 'paid'")
    assert (code, rows) == (0, [{"id": 2, "line": 0, "state": "paid", "note": None}])
    (planned,) = command("plan")[1]
    assert (planned["change"], planned["raw_rows"]) == ("none", 3)
    (standing,) = command("status")[1]
    assert (standing["raw_rows"], standing["view_state"]) == (3, "current")
    code, checks = command("validate", "--no-docs")
    assert code == 0
    assert {row["status"] for row in checks} == {"passed", "skipped"}


def _project(folder: Path, remote: RemoteProject, *, tables: list[dict[str, Any]] | None = None) -> Project:
    warehouse = remote.place.dataset(remote.place.views)
    return project(folder, None, warehouse=warehouse, tables=tables, **remote.settings)
