"""`query --order-by` and `--offset`: the engine sorts and leaves out, before anything is read into this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine, table, write_project

SCHEMA = "CREATE TABLE public.t (id int PRIMARY KEY, n int, w text, d numeric, at timestamp);"
ROWS: list[dict[str, Any]] = [
    {"id": i, "n": n, "w": w, "d": f"{i}.50", "at": i}
    for i, (n, w) in enumerate([(3, "b"), (None, "a"), (3, "a"), (1, None), (2, "c")])
]


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    Path("s.sql").write_text(SCHEMA, encoding="utf-8")
    write_project(table("public.t", "s.sql"))
    run, source = CommandLine(capsys), {"connector": "postgresql", "lsn": 1, "schema": "public", "table": "t", "ts_ms": 1}
    events = [{"op": "c", "before": None, "after": row, "source": {**source, "lsn": row["id"] + 1}} for row in ROWS]
    assert run.land("public.t", *map(json.dumps, events)).code == 0
    return run


def ids(run: CommandLine, *more: str) -> list[int]:
    return [row["id"] for row in run.query("public.t", "--columns", "id", *more)]


ORDERS = {
    ("n",): [1, 3, 4, 0, 2],  # nulls first, ties by key
    ("-n",): [0, 2, 4, 3, 1],
    ("-n", "w"): [2, 0, 4, 3, 1],
    ("w", "-id"): [3, 2, 1, 0, 4],
    ("-at",): [4, 3, 2, 1, 0],
}


@pytest.mark.parametrize("order", ORDERS)
def test_rows_come_in_the_order_that_is_asked_for(landed: CommandLine, order: tuple[str, ...]) -> None:
    asked = [f"--order-by={name}" for name in order]
    assert ids(landed, *asked) == ORDERS[order]
    pages = [ids(landed, *asked, "--limit", "2", "--offset", str(start)) for start in (0, 2, 4, 6)]
    assert [one for page in pages for one in page] == ORDERS[order]
    assert ids(landed, *asked, "--where", "id <> 2") == [one for one in ORDERS[order] if one != 2]


@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["kernel", "aggregate"])
def test_spark_orders_and_leaves_out_as_duckdb_does(landed: CommandLine, strategy: str) -> None:
    asked = ["--order-by=-n", "--order-by=w", "--limit", "2", "--offset", "1", "--strategy", strategy, "--engine", "spark"]
    assert ids(landed, *asked) == [0, 4]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--order-by", "gone"), "no column 'gone'"),
        (("--order-by", "d"), "cannot be ordered by 'd', a decimal"),
        (("--offset=-1",), "offset is -1"),
        (("--offset", "1", "--out", "x.csv"), "of printed rows"),
    ],
)
def test_what_cannot_be_ordered_is_refused(landed: CommandLine, asked: tuple[str, ...], told: str) -> None:
    answer = landed("query", "public.t", *asked)
    assert answer.code == 2
    assert told in answer.err


def test_a_statement_has_its_own_order(landed: CommandLine) -> None:
    answer = landed("query", "SELECT id FROM t", "--order-by", "id")
    assert (answer.code, "ORDER BY and OFFSET in the SQL" in answer.err) == (2, True)
