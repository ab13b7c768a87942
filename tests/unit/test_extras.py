"""A missing optional package is a matter of installation: exit code 2, and the `pip install` that mends it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import metadata, packages_distributions, requires
from pathlib import Path

import pytest
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.errors import MissingExtraError, UnsupportedError
from cdc_views.model.extras import EXTRA_OF, missing_extra, needs

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdc_views", "spark/cdc_views_spark", "bigquery/cdc_views_bigquery", "producers/cdc_producers")

QUERY = "from cdc_views import Project; Project.load().table('shop.orders').query().to_pandas()"
ASKED = {
    "query on Spark": (["query", "shop.orders", "--engine", "spark"], "spark"),
    "apply on Spark": (["apply", "--project", "spark.yml"], "spark"),
    "materialize on Spark": (["materialize", "--engine", "spark"], "spark"),
    "metrics of materialize": (["materialize", "--metrics", "state.prom"], "producers"),
    "follow on Spark": (["materialize", "--engine", "spark", "--trigger", "available-now"], "spark"),
    "validate on Spark": (["validate", "--no-docs", "--engine", "spark"], "spark"),
    "a Spark library": (["python", "import cdc_views_spark.streaming"], "spark"),
    "query in BigQuery": (["query", "shop.orders", "--project", "bigquery.yml"], "bigquery"),
    "land in BigQuery": (
        ["land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders", "--project", "bigquery.yml"],
        "bigquery",
    ),
    "apply in BigQuery": (["apply", "--project", "bigquery.yml"], "bigquery"),
    "the Storage Write API": (["python", "import cdc_producers.bigquery_write"], "bigquery-write"),
    "validate with Data Docs": (["validate", "--docs"], "quality"),
    "expectations": (["python", "import cdc_views.quality.expectations"], "quality"),
    "check a contract": (["contract", "check", "contract.odcs.yaml"], "contracts"),
    "validate a contract": (["validate", "--no-docs", "--contract", "contract.odcs.yaml"], "contracts"),
    "produce http": (["produce", "http"], "producers"),
    "produce postgres": (["produce", "postgres", "--project", "debezium.yml"], "producers"),
    "produce mariadb": (["produce", "mariadb", "--project", "debezium.yml"], "producers"),
    "produce mysql": (["produce", "mysql", "--project", "debezium.yml"], "producers"),
    "produce kafka": (["produce", "kafka", "--project", "debezium.yml"], "producers"),
    "produce cassandra": (["produce", "cassandra"], "producers"),
    "Sentry": (["python", "from cdc_producers.reports import _client; _client('https://k@127.0.0.1/1', None)"], "producers"),
    "to_pandas": (["python", QUERY], "pandas"),
    "SQLMesh's macro": (["python", "import cdc_views.export.sqlmesh.macros"], "sqlmesh"),
    "pages in a browser": (["ui"], "ui"),
    "dbt's plugin": (["python", "import cdc_views.export.dbt.duckdb_plugin"], "dbt"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What each of `ASKED` says where no optional package is installed: one process for all, that of a fresh install."""
    folder = tmp_path_factory.mktemp("without")
    project = make_project(folder)
    text = project.read_text("utf-8")
    (folder / "spark.yml").write_text(text.replace('"duckdb"', '"spark"'))
    (folder / "bigquery.yml").write_text(text.replace('"duckdb"', '"bigquery", "warehouse": "p.d"'))
    (folder / "debezium.yml").write_text(text.replace("cassandra-mutation", "debezium"))
    (folder / "contract.odcs.yaml").write_text("apiVersion: v3.1.0\nkind: DataContract\nid: a\nversion: 1.0.0\nstatus: active\n")
    write_lines(folder / "events.jsonl", event(1))
    commands = [
        ["land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders"],
        *(asked for asked, _ in ASKED.values()),
        ["validate"],
    ]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "helpers" / "without_extras.py")],
        input="\n".join(map(json.dumps, commands)), cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    landed, *said, validated = map(json.loads, ran.stdout.splitlines())
    assert (landed[0], validated[0]) == (0, 0), (landed, validated)
    assert "no Data Docs" in validated[1]
    return dict(zip(ASKED, map(tuple, said), strict=True))


@pytest.mark.parametrize("asked", ASKED)
def test_what_needs_an_extra_names_it_and_ends_with_2(asked: str, answers: dict[str, tuple[int, str]]) -> None:
    code, said = answers[asked]
    assert code == 2, said
    assert f"pip install 'cdc-views[{ASKED[asked][1]}]'" in said
    assert "bug" not in said
    assert "Traceback" not in said


def _imported() -> Iterator[tuple[Path, str, bool]]:
    """(file, module, whether it is imported at the top of the module) of each import of the four packages."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            tree = ast.parse(file.read_text("utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    yield from ((file, alias.name, node in tree.body) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield file, node.module, node in tree.body


def _base() -> set[str]:
    """Modules that plain `pip install cdc-views` brings."""
    names = [re.match(r"[\w.-]+", line) for line in requires("cdc-views") or () if "extra ==" not in line]
    plain = {name[0].lower() for name in names if name}
    return {module for module, found in packages_distributions().items() if {one.lower() for one in found} & plain}


def test_every_optional_module_that_is_imported_has_an_extra() -> None:
    known = (
        _base()
        | set(sys.stdlib_module_names)
        | {Path(package).name for package in PACKAGES}
        | {"click", "pydantic_core", "typing_extensions"}
    )
    roots = {(name.partition(".")[0], file.name) for file, name, _ in _imported()}
    unknown = {(root, file) for root, file in roots if root not in known and root not in {n.partition(".")[0] for n in EXTRA_OF}}
    assert unknown == set()


def test_cdc_views_itself_imports_nothing_optional_at_the_top_of_a_module() -> None:
    optional = {name.partition(".")[0] for name in EXTRA_OF}
    found = {
        file.relative_to(ROOT).as_posix()
        for file, name, is_top in _imported()
        if is_top and name.partition(".")[0] in optional and file.is_relative_to(ROOT / "cdc_views")
    }
    assert found == set()


def test_every_extra_named_is_one_of_the_package() -> None:
    assert set(EXTRA_OF.values()) <= set(metadata("cdc-views").get_all("Provides-Extra") or ())


def test_a_module_of_our_own_that_is_missing_stays_a_bug() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'cdc_views.nope'", name="cdc_views.nope"), extra="spark") is None


def test_a_package_that_is_there_and_does_not_load_says_why() -> None:
    with pytest.raises(MissingExtraError, match=r"which cannot be imported \(libpq\.so\.5"), needs("it", extra="producers"):
        raise ImportError("libpq.so.5: cannot open shared object file", name="psycopg")


def test_the_error_is_an_import_error_and_a_usage_error() -> None:
    error = MissingExtraError("it", module="pandas", extra="pandas")
    assert isinstance(error, ImportError)
    assert isinstance(error, UnsupportedError)
    assert error.exit_code == 2
