"""What dbt users expect of exported models and sources, by what dbt makes of it: contracts, freshness, `dbt:` of a table."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import table
from helpers.dbt_project import DbtProject
from helpers.tiny_project import event

from cdc_views.export.dbt import export

pytestmark = pytest.mark.heavy

CQL = """\
CREATE TABLE shop.orders (id int, line int, at timestamp, state text, price decimal, tags set<text>, PRIMARY KEY (id, line));
CREATE TABLE shop.customers (id int PRIMARY KEY, name text);
"""
MODELS = "models/cdc_views/_cdc_views__models.yml"


def made(folder: Path, *, orders: dict[str, Any] | None = None, target: str = "duckdb") -> DbtProject:
    """A dbt project of both tables; `orders` adds to the first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shop.cql").write_text(CQL)
    first = table("shop.orders", "shop.cql", "cassandra-mutation") | (orders or {})
    return DbtProject.make(folder, first, table("shop.customers", "shop.cql", "cassandra-mutation"), target=target)


def exported(folder: Path) -> dict[str, bytes]:
    files = [path for part in ("models", "macros") for path in (folder / part).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def land(dbt: DbtProject, *lines: str, late_by: timedelta = timedelta(0)) -> None:
    file = dbt.folder / "events.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    dbt.project.table("shop.orders").land(file, now=datetime.now(timezone.utc) - late_by)


def nodes(dbt: DbtProject) -> dict[str, Any]:
    """Models and tests by name, and sources that no model is called as."""
    manifest = json.loads((dbt.folder / "target" / "manifest.json").read_text("utf-8"))
    return {node["name"]: node for node in [*manifest["sources"].values(), *manifest["nodes"].values()]}


def test_a_contract_is_enforced(tmp_path: Path) -> None:
    """The types are those of the model, and another type stops the build: dbt does compare them."""
    dbt = made(tmp_path)
    land(dbt, event(1))
    dbt.build()
    types = {name: column["data_type"] for name, column in nodes(dbt)["shop__orders"]["columns"].items()}
    assert types["at"] == "TIMESTAMPTZ"
    assert types["tags"] == "VARCHAR[]"
    models = tmp_path / MODELS
    models.write_text(models.read_text().replace("data_type: int", "data_type: bigint", 1))
    assert "This model has an enforced contract that failed" in dbt.run("run", "--select", "shop__orders")["shop__orders"]


@pytest.mark.parametrize(
    ("tests", "statuses"),
    [
        pytest.param([], ("warn", "warn", "pass"), marks=pytest.mark.slow, id="default"),
        pytest.param(
            [{"fresh_within": "1h", "severity": "warning"}, {"fresh_within": "40h"}], ("error", "warn", "pass"), id="both"
        ),
    ],
)
def test_freshness_is_the_age_of_the_last_landing(tmp_path: Path, tests: list[Any], statuses: tuple[str, ...]) -> None:
    found, dbt = [], made(tmp_path, orders={"tests": tests})
    for hours in (50, 30, 0):
        land(dbt, event(100 - hours), late_by=timedelta(hours=hours))
        dbt.run("source", "freshness", "--select", "source:cdc_views_raw.shop__orders")
        (result,) = json.loads((dbt.folder / "target" / "sources.json").read_text("utf-8"))["results"]
        assert abs(result["max_loaded_at_time_ago_in_s"] - 3600 * hours) < 600
        found.append(result["status"])
    assert tuple(found) == statuses


@pytest.mark.slow
def test_what_the_project_file_says_is_in_the_models(tmp_path: Path) -> None:
    """Also the words of dbt that it passes on, as `doc(…)`."""
    of_dbt = {
        "materialized": "table",
        "tags": ["daily", "pii"],
        "group": "sales",
        "description": "{{ doc('orders') }}",
        "columns": {"state": "Where it is."},
    }
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "groups.yml").write_text("groups: [{name: sales, owner: {name: Sales}}]\n")
    (tmp_path / "models" / "docs.md").write_text("{% docs orders %}What was ordered.{% enddocs %}\n")
    dbt = made(tmp_path, orders={"dbt": of_dbt})
    land(dbt, event(1))
    dbt.build()
    model, state = nodes(dbt)["shop__orders"], nodes(dbt)["shop__orders__state"]
    assert (model["config"]["materialized"], state["config"]["materialized"]) == ("table", "incremental")
    assert model["description"] == "What was ordered."
    assert [model["columns"][name]["description"] for name in ("state", "line")] == ["Where it is.", "clustering key, int"]
    assert (model["tags"], state["tags"]) == (["daily", "pii"],) * 2
    assert (model["group"], state["group"]) == ("sales", "sales")
    assert dbt.rows("SELECT table_type FROM information_schema.tables WHERE table_name = 'shop__orders'").to_pylist() == [
        {"table_type": "BASE TABLE"}
    ]


@pytest.mark.slow
def test_a_table_that_is_a_view_keeps_nothing(tmp_path: Path) -> None:
    dbt = made(tmp_path, orders={"dbt": {"materialized": "view"}})
    (tmp_path / "models" / "shown.sql").write_text("{{ config(materialized='table') }} SELECT id FROM {{ ref('shop__orders') }}")
    for number in (1, 2):
        land(dbt, event(number))
        dbt.build()
        assert dbt.rows("SELECT count(*) AS n FROM shown").to_pylist() == [{"n": number}]
    kept = dbt.rows("SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY ALL")
    assert kept.column("table_name").to_pylist() == ["shop__customers__state", "shown"]


@pytest.mark.slow
def test_a_run_rebuilds_only_the_parts_that_new_events_touch(tmp_path: Path) -> None:
    """The facts of a part that a run rebuilds get the newest landing time that it read. Orders 1 and 2 have a part each; the
    second run reads both, and the third only order 2.
    """
    dbt, landed = made(tmp_path), 'SELECT epoch("_landed_at") AS at FROM shop__orders__state ORDER BY id'
    for line, hours in ((event(1), 50), (event(2), 30), (event(2, node="n2"), 0)):
        land(dbt, line, late_by=timedelta(hours=hours))
        dbt.build("--select", "shop__orders__state", command="run")
    first, second = dbt.rows(landed).column("at").to_pylist()
    assert 29 * 3600 < second - first < 31 * 3600


@pytest.mark.slow
def test_a_model_reads_the_view_over_another_state(tmp_path: Path) -> None:
    dbt = made(tmp_path)
    land(dbt, event(1))
    dbt.project.table("shop.orders").materialize()
    dbt.project.table("shop.orders").apply()
    profiles, own = tmp_path / "profiles.yml", tmp_path / "models" / "own"
    attached = f"attach: [{{path: {tmp_path}/warehouse/views.duckdb, alias: cdc, read_only: true}}]"
    profiles.write_text(profiles.read_text().replace("threads: 2", f"threads: 2\n      {attached}"))
    own.mkdir()
    (own / "sources.yml").write_text("sources: [{name: kept, database: cdc, schema: shop, tables: [{name: orders}]}]\n")
    (own / "shown.sql").write_text("{{ config(materialized='table') }} SELECT id FROM {{ source('kept', 'orders') }}")
    dbt.build("--select", "shown")
    assert dbt.rows("SELECT id FROM shown").to_pylist() == [{"id": 1}]


def test_a_project_in_another_folder_gives_the_same_files(tmp_path: Path) -> None:
    made(tmp_path / "here")
    made(tmp_path / "there" / "deeper")
    here = exported(tmp_path / "here")
    assert here == exported(tmp_path / "there" / "deeper")
    assert not [name for name, text in here.items() if str(tmp_path).encode() in text]


def test_spark_without_the_project_s_folder_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbt = made(tmp_path, target="spark")
    monkeypatch.setattr(DbtProject, "root_variable", "NOT_CDC_VIEWS_ROOT")
    with pytest.raises(Exception, match="Env var required but not provided: 'CDC_VIEWS_ROOT'"):
        dbt.run("parse")
    dbt.run("parse", cdc_views_root="/srv/shop")
    manifest = json.loads((dbt.folder / "target" / "manifest.json").read_text("utf-8"))
    places = {source["name"]: source["identifier"] for source in manifest["sources"].values()}
    assert places["shop__orders"] == "/srv/shop/warehouse/raw/shop_orders"
    assert nodes(dbt)["shop__orders"]["contract"]["enforced"] is True, "as on DuckDB"


def test_an_edited_file_is_not_replaced(tmp_path: Path) -> None:
    dbt = made(tmp_path)
    files = sorted((tmp_path / "models").rglob("_cdc_views__*.yml"))
    assert [file.stem.rpartition("__")[2] for file in files] == ["exposures", "models", "sources"]
    for file in files:
        text = file.read_text()
        file.write_text(f"{text}# mine\n")
        with pytest.raises(Exception, match=f"{file.name} was edited since"):
            export("cases", dbt.project.tables, tmp_path)
        assert file.read_text().endswith("# mine\n")
        file.write_text(text)
    models = tmp_path / MODELS
    models.write_text(models.read_text().replace("regular, text", "What I wrote."))
    with pytest.raises(Exception, match=r"_cdc_views__models.yml was edited since .* put what you added into the project file"):
        export("cases", dbt.project.tables, tmp_path)
    assert "What I wrote." in models.read_text()
    models.unlink()
    export("cases", dbt.project.tables, tmp_path)
    assert "regular, text" in models.read_text()
