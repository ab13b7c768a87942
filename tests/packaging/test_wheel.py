"""What a wheel and an sdist hold, and what `import cdc_views` does not load."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from helpers.document_runs import run_document
from helpers.document_shell import Shell, environment

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
HEAVY = ("pyarrow", "duckdb", "deltalake", "pyspark", "typer", "rich", "pandas")


@pytest.fixture(scope="module")
def wheel_names(built: Path) -> list[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return wheel.namelist()


@pytest.fixture(scope="module")
def sdist_names(built: Path) -> set[str]:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def run(code: str, *, site: Path, cwd: Path) -> str:
    """Run Python in a fresh process that finds `site` before the checkout; returns its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_has_four_packages_and_nothing_else(wheel_names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}
    packages = {"cdc_views", "cdc_views_spark", "cdc_views_bigquery", "cdc_producers"}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    assert len(tops) == 5


def test_the_wheel_has_templates_the_license_and_no_rubbish(wheel_names: list[str]) -> None:
    templates = {path.relative_to(ROOT / "templates").as_posix() for path in (ROOT / "templates").rglob("*") if path.is_file()}
    inside = "cdc_views/_templates/"
    assert {name.removeprefix(inside) for name in wheel_names if name.startswith(inside)} == templates
    assert {"create_view.sql.j2", "pages/report.html.j2", "pages/app.css", "pages/app.js"} <= templates
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)
    assert "cdc_views_spark/log4j2.properties" in wheel_names
    assert not [name for name in wheel_names if name.endswith((".pyc", ".pyo")) or "__pycache__" in name or "/tests/" in name]


def test_every_module_is_in_the_wheel(wheel_names: list[str]) -> None:
    sources = {"cdc_views": ROOT, "cdc_views_spark": ROOT / "spark", "cdc_producers": ROOT / "producers"}
    modules = {p.relative_to(base).as_posix() for name, base in sources.items() for p in (base / name).rglob("*.py")}
    assert modules - set(wheel_names) == set()


def test_the_wheel_says_that_it_is_typed_only_where_it_is(wheel_names: list[str], built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        metadata = wheel.read(next(name for name in wheel_names if name.endswith(".dist-info/METADATA"))).decode()
    marked = {name.partition("/")[0] for name in wheel_names if name.endswith("/py.typed")}
    if "Classifier: Typing :: Typed" in metadata and not marked:
        pytest.fail("py.typed is missing from every package, so type checkers ignore our types (PEP 561)")
    assert marked == {"cdc_views", "cdc_views_spark", "cdc_producers"}


def test_the_wheel_has_the_command_and_the_engine(wheel_names: list[str], built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        entries = wheel.read(next(name for name in wheel_names if name.endswith("entry_points.txt"))).decode()
    assert "cdc-views = cdc_views.cli:main" in entries
    assert "spark = cdc_views_spark.plugin:SparkPlugin" in entries


def test_the_sdist_has_what_tests_need(sdist_names: set[str]) -> None:
    wanted = {
        "LICENSE", "README.md", "Makefile", "pyproject.toml", "tests/conftest.py", "tests/packaging/test_wheel.py",
        "tests/data/cassandra_cases.tar.xz", "templates/create_view.sql.j2", "docs/reference/semantics.md",
        "docs/images/merge.svg",
    }  # fmt: skip
    assert wanted - sdist_names == set()
    assert not [name for name in sdist_names if name.startswith((".venv", ".git/", ".cache")) or name.endswith(".pyc")]


def test_import_loads_no_engine_and_no_command_line(unpacked: Path, tmp_path: Path) -> None:
    code = f"import sys, cdc_views; print(cdc_views.__file__); print([name for name in {HEAVY!r} if name in sys.modules])"
    file, loaded = run(code, site=unpacked, cwd=tmp_path).splitlines()
    assert Path(file).is_relative_to(unpacked)
    assert loaded == "[]"


def test_public_names_are_there(unpacked: Path, tmp_path: Path) -> None:
    code = "import cdc_views; print(*cdc_views.__all__); [getattr(cdc_views, name) for name in cdc_views.__all__]"
    assert "Project" in run(code, site=unpacked, cwd=tmp_path).split()


@pytest.mark.heavy
def test_the_unpacked_wheel_generates_sql_and_pages_from_its_own_templates(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "s.cql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, state text);\n")
    mutation = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": 1, "keyspace": "shop", "table": "orders"}
    event = {**mutation, "partition": {"id": 1}, "rows": [{"kind": "row", "liveness": {"written": 1}}]}
    (tmp_path / "e.jsonl").write_text(json.dumps(event) + "\n")
    code = """
from cdc_views.cli import main
from cdc_views.sql.statements import template_folder
assert main(["demo", "--dir", "demo"]) == 0
assert main(["init", "--from", "s.cql"]) == 0
assert main(["land", "cassandra-mutation", "e.jsonl", "--table", "shop.orders"]) == 0
assert main(["generate", "--dialect", "spark"]) == 0
assert main(["report", "--out", "site", "--format", "csv"]) == 0
print(template_folder())
"""
    out = run(code, site=unpacked, cwd=tmp_path)
    assert "CREATE OR REPLACE VIEW shop.orders" in out
    assert re.search(r"^shop\.orders,shop_orders\.html,[1-9]\d*,0,", out, re.MULTILINE)
    assert (tmp_path / "demo" / "orders.jsonl").is_file()
    assert "<style>:root" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert Path(out.splitlines()[-1]).is_relative_to(unpacked)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/tutorials/{name}.md" for name in ("postgres", "cassandra", "bronze-table"))]
)
def test_a_first_page_works_word_for_word_from_the_wheel(page: str, unpacked: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path, {**environment(ROOT), "PYTHONPATH": str(unpacked)}, is_in_process=False)
    assert shell.run('python -c "import cdc_views; print(cdc_views.__file__)"').out.startswith(str(unpacked))
    assert run_document((ROOT / page).read_text(encoding="utf-8"), shell) == ""
