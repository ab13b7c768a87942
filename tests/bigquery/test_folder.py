"""`generate --out`: a folder of SQL that makes everything, run here statement by statement as its README says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiny_project import event, make_project

from cdc_views.cli import main
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views_bigquery.client import Connection


def _run_folder(folder: Path, connection: Connection) -> list[str]:
    """Run the files in the README's order, and return their paths."""
    files = sorted([*folder.glob("*.sql"), *folder.glob("*/*.sql")], key=lambda file: str(file.relative_to(folder)))
    for file in files:
        for statement in file.read_text().split(";\n"):
            if statement.strip():
                connection.run(statement, what=f"running {file.name}")
    return [str(file.relative_to(folder)) for file in files]


def test_the_folder_makes_what_apply_makes(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    out = tmp_path / "sql"
    assert main(["generate", "--out", str(out), "--project", str(loaded.file)]) == 0
    with loaded.remote() as engine:
        files = _run_folder(out, engine.connection)  # type: ignore[attr-defined]
    assert files == [
        "1_datasets.sql",
        "2_raw/shop_raw.shop_orders.sql",
        "4_views/shop.orders.sql",
        "5_functions/shop.orders_landed.sql",
    ]
    readme = (out / "README.md").read_text()
    assert all(f"`{file}`" in readme for file in files)
    assert loaded.table("shop.orders").plan().change == "none"
    load(loaded.table("shop.orders"), [event(1)])
    assert len(loaded.table("shop.orders").query(as_of=1_800_000_000)) == 1


def test_views_may_share_functions(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    out = tmp_path / "sql"
    assert main(["generate", "--style", "macros", "--out", str(out), "--project", str(loaded.file)]) == 0
    with loaded.remote() as engine:
        files = _run_folder(out, engine.connection)  # type: ignore[attr-defined]
    assert "3_parts_of_views/shop.cdc_shows.sql" in files
    table = loaded.table("shop.orders")
    load(table, [event(1)])
    view = server.store.things["my-project.shop.orders"].query
    assert view is not None
    assert "my-project`.shop.cdc_shows(" in (out / "4_views" / "shop.orders.sql").read_text()
    _, rows = server.store.evaluated(view)
    assert len(rows) == len(table.query(as_of=1_800_000_000)) == 1
    definition, *_ = table.sql(style="macros").split(";\n\n")
    assert f"{definition};\n" == (out / "3_parts_of_views" / "shop.cdc_shows.sql").read_text()


def test_a_project_of_another_engine_has_one_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = make_project(tmp_path)
    out = tmp_path / "sql"
    assert main(["generate", "--dialect", "bigquery", "--strategy", "window", "--out", str(out), "--project", str(file)]) == 0
    view = (out / "4_views" / "shop.orders.sql").read_text()
    assert "CREATE OR REPLACE VIEW `shop.orders`" in view
    assert "FROM `shop_raw.shop_orders`" in view
    assert "strategy window, as asked for" in view
    assert main(["generate", "--dialect", "bigquery", "--project", str(file)]) == 0
    assert "CREATE OR REPLACE VIEW" in capsys.readouterr().out


@pytest.mark.slow
def test_the_scripts_for_scheduled_queries_keep_a_state(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    out = tmp_path / "sql"
    assert main(["generate", "--out", str(out), "--project", str(loaded.file)]) == 0
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1)])
    scripts = {file.stem: file.read_text() for file in (out / "scheduled" / "shop_orders").glob("*.sql")}
    assert sorted(scripts) == ["run", "settle", "setup", "view"]
    readme = (out / "README.md").read_text()
    assert all(f"`scheduled/shop_orders/{name}.sql`" in readme for name in scripts)
    assert "run `setup.sql` once, then schedule `run.sql` (every 15 minutes, say) and `settle.sql`" in readme
    with loaded.remote() as engine:
        connection: Connection = engine.connection  # type: ignore[attr-defined]
        dataset, _, setup = scripts["setup"].partition(";\n\n")
        connection.run(dataset, what="testing")
        for script in (setup, scripts["run"], scripts["settle"]):
            connection.script(script, what="testing")
        assert loaded.table("shop.orders").plan().change == "replace", "the numbered files' view reads raw"
        for statement in filter(str.strip, scripts["view"].split(";\n")):
            connection.run(statement, what="testing")
        assert loaded.table("shop.orders").plan().change == "none"
        load(loaded.table("shop.orders"), [event(2)], landed_at=1_795_000_060_000_000)
        connection.script(scripts["run"], what="testing")
    assert sorted(row["id"] for row in server.store.sql.records("my-project.shop_state.shop_orders__state")) == [1, 2]
    assert len(loaded.table("shop.orders").query(as_of=1_800_000_000)) == 2
    assert "`my-project.shop_state.shop_orders__facts`" in str(server.store.query_jobs[-1]["query"]["query"])


def test_scripts_of_another_engines_project_are_beside_its_views(tmp_path: Path) -> None:
    out = tmp_path / "sql"
    assert main(["generate", "--dialect", "bigquery", "--out", str(out), "--project", str(make_project(tmp_path))]) == 0
    assert "MERGE `shop_state.shop_orders__state`" in (out / "scheduled" / "shop_orders" / "run.sql").read_text()


def test_a_found_table_may_not_be_the_derived_one(tmp_path: Path) -> None:
    raw = {"format": "cassandra-mutation", "layout": "as-found", "table": "shop_raw.shop_orders"}
    loaded = project(tmp_path, "http://127.0.0.1:1", tables=[{"name": "shop.orders", "schema": "schema.cql", "raw": raw}])
    with pytest.raises(UsageError, match="where cdc-views keeps what it derives"):
        loaded.tables[0].query()
