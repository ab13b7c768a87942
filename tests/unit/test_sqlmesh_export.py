"""`cdc-views sqlmesh export`: the same files on every run, nobody's files replaced, audits of what the key promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml
from helpers.tiny_project import CQL, make_project

from cdc_views.api import Project
from cdc_views.cli import main
from cdc_views.export.sqlmesh import files_of

MODEL = "models/cdc_views/shop__orders.sql"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    return tmp_path


def model(**more: Any) -> str:
    make_project(Path.cwd(), **more)
    return files_of(Project.load().tables, Path("out"))[MODEL]


def test_two_exports_write_the_same() -> None:
    assert main(["sqlmesh", "export", "--out", "out"]) == 0
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    assert sorted(path.as_posix() for path in before) == ["out/config.yaml", "out/macros/cdc_views.py", f"out/{MODEL}"]
    assert main(["sqlmesh", "export", "--out", "out"]) == 0
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before


def test_a_model_says_key_columns_and_audits() -> None:
    tests = [{"column": "state", "one_of": ["open"]}, {"name": "n", "holds": "line > 0", "severity": "warning"}]
    text = model(tests=[*tests, {"fresh_within": "1h"}], materialize={"schedule": "*/5 * * * *"})
    assert 'grain ("id", "line")' in text
    assert 'unique_combination_of_columns(columns := ("id", "line"))' in text
    assert 'not_null(columns := ("id", "line"))' in text
    assert 'forall(criteria := (("state" IN (\'open\') OR "state" IS NULL)))' in text
    assert "forall_non_blocking(criteria := ((line > 0)))" in text
    assert "cron '*/5 * * * *'" in text
    assert "kind FULL," in text
    query = text.rsplit("@cdc_views_read('shop.orders');\n", 1)[1]
    assert sqlglot.parse_one(query, read="duckdb").named_selects == ["id", "line", "state", "note"]


def test_a_key_is_audited_only_as_sql_compares_it() -> None:
    Path("schema.cql").write_text("")
    cql = "CREATE TABLE shop.orders (id float, line int, st text static, PRIMARY KEY (id, line));"
    make_project(Path.cwd())
    Path("schema.cql").write_text(cql)
    text = files_of(Project.load().tables, Path("out"))[MODEL]
    assert "unique_combination" not in text, "0.0 and -0.0 are two keys to Cassandra"
    assert 'not_null(columns := ("id"))' in text, "a partition of static columns alone has no line"


def test_the_user_s_files_stay(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/models/cdc_views").mkdir(parents=True)
    Path("out/config.yaml").write_text("gateways: {}\n")
    assert main(["sqlmesh", "export", "--out", "out"]) == 0
    assert Path("out/config.yaml").read_text() == "gateways: {}\n"
    Path("out", MODEL).write_text("SELECT 1")
    assert main(["sqlmesh", "export", "--out", "out"]) == 2
    assert "was not written by `cdc-views sqlmesh export`" in capsys.readouterr().err


def test_a_table_that_left_leaves() -> None:
    assert main(["sqlmesh", "export", "--out", "out"]) == 0
    make_project(Path.cwd(), name="shop.lines")
    Path("schema.cql").write_text(CQL.replace("shop.orders", "shop.lines"))
    assert main(["sqlmesh", "export", "--out", "out"]) == 0
    assert [path.name for path in Path("out/models/cdc_views").iterdir()] == ["shop__lines.sql"]


def test_the_configuration_finds_the_project_file() -> None:
    text = files_of(Project.load().tables, Path("deep/out"))["config.yaml"]
    assert yaml.safe_load(text)["variables"] == {"cdc_views_project": "../../cdc_views.yml"}


@pytest.mark.parametrize(
    "cql",
    [
        'CREATE TABLE shop.orders (id int PRIMARY KEY, "a@execution_ds" text);',
        'CREATE TYPE shop.u ("a@b" int); CREATE TABLE shop.orders (id int PRIMARY KEY, u frozen<u>);',
        'CREATE TABLE shop.orders (id int PRIMARY KEY, "{{ x }}" text);',
    ],
)
def test_a_name_that_sqlmesh_would_change_is_refused(capsys: pytest.CaptureFixture[str], cql: str) -> None:
    Path("schema.cql").write_text(cql)
    assert main(["sqlmesh", "export", "--out", "out"]) == 2
    assert re.search(r"shop.orders has a name or a test with `(@|\{\{)` in it", capsys.readouterr().err)
    assert not Path("out").exists()


def test_sqlmesh_takes_other_versions_than_we_do() -> None:
    folder = Path(__file__).parents[2] / "requirements"
    its, ours = (
        dict(re.findall(r"^(sqlglot|duckdb)==(\S+)", (folder / f"{n}.txt").read_text(), re.M)) for n in ("sqlmesh", "dev")
    )
    assert its.keys() == ours.keys() == {"sqlglot", "duckdb"}
    assert [name for name, version in its.items() if version == ours[name]] == []
