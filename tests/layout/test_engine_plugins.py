"""Engines are plug-ins: facts decide, and no module outside an engine's package asks for it by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cdc_views
from cdc_views.engines.plugin import engine_names, engine_plugin, engines_that
from cdc_views.errors import ConfigError

PACKAGE = Path(cdc_views.__file__).parent
OWN = {"engines/duckdb", "sql/dialects"}
NAMES_SOMETHING_ELSE = {
    "export/contracts/writing.py",  # the dialect that types are written in
    "export/dbt/macros.py",  # dbt's adapters
    "export/sqlmesh/__init__.py",  # SQLMesh's connection
    "model/extras.py",  # extras of the wheel
}  # fmt: skip
DIALECT_ARGUMENTS = {"dialect", "read", "dialect_name", "extra"}


def engine_names_in(source: str) -> list[tuple[int, str]]:
    """(line, name) of texts that are an engine's name, and not a dialect that SQL is read or written in."""
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    dialects = {id(keyword.value) for call in calls for keyword in call.keywords if keyword.arg in DIALECT_ARGUMENTS}
    dialects |= {id(a) for call in calls if getattr(call.func, "id", "") == "dialect" for a in call.args}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in dialects]
    return [(node.lineno, node.value) for node in texts if node.value in engine_names()]


def test_no_module_asks_for_an_engine_by_name() -> None:
    found = {}
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).as_posix()
        is_free = place in NAMES_SOMETHING_ELSE or any(place.startswith(own) for own in OWN)
        if not is_free and (lines := engine_names_in(file.read_text(encoding="utf-8"))):
            found[place] = lines
    assert found == {}


def test_the_check_finds_a_name() -> None:
    assert engine_names_in('if engine == "bigquery": pass') == [(1, "bigquery")]
    assert engine_names_in('tree.sql(dialect="bigquery")') == []


@pytest.mark.parametrize("name", engine_names())
def test_an_engine_is_called_as_its_entry_point(name: str) -> None:
    plugin = engine_plugin(name)
    assert plugin.name == name
    assert plugin.title


def test_engines_are_chosen_by_what_they_declare() -> None:
    assert engines_that(lambda plugin: plugin.keeps_tables) == ("bigquery",)
    assert engines_that(lambda plugin: plugin.streams) == ("spark",)
    assert engines_that(lambda plugin: plugin.views_name_files) == ("duckdb",)


def test_an_unknown_engine_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="there is no engine 'sprak'; did you mean 'spark'"):
        engine_plugin("sprak")
