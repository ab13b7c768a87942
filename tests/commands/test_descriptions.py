"""Comments of a schema are the descriptions of its table and columns, wherever these are read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from helpers.command_line import CommandLine

COMMENTS = "COMMENT ON TABLE orders IS 'What was <b>ordered</b>'; COMMENT ON COLUMN orders.state IS 'Where it is.';"


@pytest.mark.heavy
def test_comments_of_a_schema_are_in_dbt_the_contract_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CommandLine(capsys)
    assert run("demo").code == 0
    with Path("schema.sql").open("a") as schema:
        schema.write(COMMENTS)
    assert run("init", "--from", "schema.sql", "--name", "shop", "--select", "shop.orders").code == 0
    assert run("land", "debezium", "orders.jsonl", "--table", "orders").code == 0
    assert run("dbt", "export", "--out", "dbt").code == 0
    models = yaml.safe_load(Path("dbt/models/cdc_views/_cdc_views__models.yml").read_text("utf-8"))["models"]
    (model,) = [one for one in models if one["name"] == "shop__orders"]
    assert model["description"].startswith("What was <b>ordered</b>. The latest row of every key of shop.orders.")
    assert {one["name"]: one["description"] for one in model["columns"]}["state"] == "Where it is."
    assert run("contract", "export", "--out", "contract.yaml").code == 0
    (table,) = yaml.safe_load(Path("contract.yaml").read_text("utf-8"))["schema"]
    assert table["description"].startswith("What was <b>ordered</b>. ")
    assert {one["name"]: one["description"] for one in table["properties"]}["state"] == "Where it is."
    assert run("report", "--out", "site").code == 0
    pages = "".join(Path(f"site/shop_orders{page}.html").read_text("utf-8") for page in ("", "-columns"))
    assert "<p>What was &lt;b&gt;ordered&lt;/b&gt;</p>" in pages
    assert "<small>Where it is.</small>" in pages
