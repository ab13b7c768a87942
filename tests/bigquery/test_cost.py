"""The cost planner: numbers worked out by hand, measured ones, and the picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cdc_views_bigquery.config import BigQueryConfig
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiny_project import SCHEMA, event, make_project

from cdc_views.cli import main
from cdc_views.engines.warehouses import Load, Measured
from cdc_views.storage.relation import Relation

GIB, TIB = 1 << 30, 1 << 40
CONFIG = BigQueryConfig(price_per_tib=5.0, storage_price_per_gib=0.02)
MEASURED = Measured(facts=GIB, bytes=100 * GIB, reads=50 * GIB)
"""100 bytes a fact, of which a read of the view takes half."""


def _costs(asked: Load, measured: Measured | None = MEASURED) -> dict[str, Any]:
    from cdc_views_bigquery.costs import costs

    return {cost.way: cost for cost in costs(Relation(SCHEMA), CONFIG, asked, measured)}


def test_the_numbers_are_those_worked_out_by_hand() -> None:
    found = _costs(Load(rows=GIB // 10, facts_per_day=0, queries_per_day=2, runs_per_day=1))
    assert found["view"].query_bytes == 60 * 50 * GIB
    assert found["view"].query_money == pytest.approx(60 * 50 / 1024 * 5)
    assert (found["view"].run_bytes, found["view"].kept_money) == (0, pytest.approx(2.0))
    assert found["state"].query_bytes == pytest.approx(60 * 5 * GIB, rel=1e-6)
    assert found["state"].run_bytes == pytest.approx(30 * 10 * GIB, rel=1e-6)
    # a row of the serving table: two integers and two texts of 2 + 20 bytes
    assert found["serving"].query_bytes == pytest.approx(60 * (GIB // 10) * 60, rel=1e-6)
    assert found["serving"].kept_bytes == pytest.approx(100 * GIB + 10 * GIB + 6 * GIB, rel=1e-6)


def test_what_lands_grows_raw_and_the_tail_alone() -> None:
    still, growing = (_costs(Load(rows=1000, facts_per_day=n, queries_per_day=1, runs_per_day=1)) for n in (0, 10_000_000))
    assert growing["view"].kept_bytes - still["view"].kept_bytes == 15 * 10_000_000 * 100
    assert growing["serving"].query_bytes == still["serving"].query_bytes
    assert growing["state"].query_bytes > still["state"].query_bytes


def test_each_table_read_bills_at_least_10_mib() -> None:
    tiny = _costs(Load(facts=1, rows=1, facts_per_day=0, queries_per_day=1), measured=None)
    assert tiny["view"].query_bytes == 30 * 10 * 1024**2


def test_many_reads_pay_for_a_serving_table_and_few_do_not() -> None:
    whole = Measured(facts=GIB, bytes=100 * GIB, reads=100 * GIB)
    few, many = (_costs(Load(rows=GIB // 10, queries_per_day=n, runs_per_day=24), whole) for n in (1, 1000))
    assert min(few.values(), key=lambda cost: cost.money).way == "view"
    assert min(many.values(), key=lambda cost: cost.money).way == "serving"


def test_cost_measures_raw_and_draws(server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(n) for n in range(10)])
    plot = tmp_path / "cost.svg"
    command = ["cost", "shop.orders", "--project", str(loaded.file), "--format", "jsonl", "--facts-per-day", "0"]
    assert main([*command, "--plot", str(plot)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["way"] for row in rows] == ["view", "state", "serving"]
    assert rows[0]["kept_bytes"] == server.store.sql.count("my-project.shop_raw.shop_orders")[1]
    lines = ElementTree.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3
    assert len({line.get("points") for line in lines}) == 3


def test_cost_without_an_account_goes_by_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = make_project(tmp_path)
    command = ["cost", "shop.orders", "--project", str(file), "--format", "jsonl"]
    assert main(command) == 2
    assert "--facts N" in capsys.readouterr().err
    assert main([*command, "--facts", "1000000", "--rows", "100000"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["money"] > 0 for row in rows)
    assert rows[0]["money"] == pytest.approx(sum(rows[0][name] for name in ("query_money", "run_money", "kept_money")), abs=1e-3)
