"""Facts that dialects declare: each decides something, and each says where it comes from."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import cdc_views.sql as package
from cdc_views.sql.dialects import dialect_class, dialect_names
from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.structs import StructDialect

FOLDER = Path(inspect.getfile(package)).parent
TREES = {file: ast.parse(file.read_text()) for file in FOLDER.rglob("*.py")}
NAMES = {"name", "sqlglot_name", "engine_name"}
SOURCES = ("Source:", "(run)", "(reference)", "See the class")
DIALECTS = [dialect_class(name) for name in dialect_names()]
RENDERED = [kind for kind in DIALECTS if issubclass(kind, StructDialect)]


def facts(kind: type) -> set[str]:
    """The facts that a class declares or inherits: public class attributes that are no functions."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("cdc_views.sql.dialects")]
    declared = {name: value for base in bases for name, value in {**inspect.get_annotations(base), **vars(base)}.items()}
    public = {
        name for name, value in declared.items() if not (name.startswith("_") or callable(value) or isinstance(value, property))
    }
    return public - {"nodes", "node", "lineage", "engine_name"}


def test_there_are_facts() -> None:
    assert {"compares_structs", "has_filter", "greatest_skips_null", "types_bare_nulls"} <= facts(Dialect)


@pytest.mark.parametrize("fact", sorted(set().union(*map(facts, DIALECTS))))
def test_every_declared_fact_is_used(fact: str) -> None:
    used = {n.attr for tree in TREES.values() for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert fact in used


@pytest.mark.parametrize("kind", RENDERED, ids=lambda kind: kind.name)
def test_every_fact_says_where_it_comes_from(kind: type[Dialect]) -> None:
    tree = next(n for t in TREES.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    for statement, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            assert isinstance(target, ast.Name)
            if target.id not in NAMES and not target.id.startswith("_"):
                text = ast.get_source_segment(Path(inspect.getfile(kind)).read_text(), following) or ""
                assert any(word in text for word in SOURCES), f"{kind.name}.{target.id} does not say"
