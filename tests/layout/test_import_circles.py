"""No circle of modules larger than two, and none of packages; imports in functions and for types alone count."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "cdc_views": ROOT / "cdc_views",
    "cdc_views_spark": ROOT / "spark/cdc_views_spark",
    "cdc_views_bigquery": ROOT / "bigquery/cdc_views_bigquery",
    "cdc_producers": ROOT / "producers/cdc_producers",
}

Graph = Mapping[str, set[str]]


def imports() -> dict[str, set[str]]:
    """Every module of the product, and the modules of it that it imports anywhere."""
    files = {}
    for package, folder in PACKAGES.items():
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            files[".".join((package, *parts)).removesuffix(".__init__")] = file
    return {name: _imported(ast.parse(file.read_text("utf-8")), files) - {name} for name, file in files.items()}


def _imported(tree: ast.Module, known: Mapping[str, Path]) -> set[str]:
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
            found |= {name if name in known else str(node.module) for name in names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name for name in found if name in known}


def circles(graph: Graph) -> list[set[str]]:
    """The sets of modules that reach each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        open_.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in open_:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = open_.index(name)
            found.append(set(open_[at:]))
            del open_[at:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return [circle for circle in found if len(circle) > 1]


def members(graph: Graph, package: str) -> dict[str, set[str]]:
    """What the members of a package import of each other; a package among them is one member, with all that it holds."""
    depth = package.count(".") + 2

    def member(module: str) -> str:
        return ".".join(module.split(".")[:depth]) if module != package else f"{package}.__init__"

    inside = {name for name in graph if name == package or name.startswith(f"{package}.")}
    found: dict[str, set[str]] = {member(name): set() for name in inside}
    for name in inside:
        found[member(name)] |= {member(other) for other in graph[name] & inside} - {member(name)}
    return found


def packages(graph: Graph) -> set[str]:
    return {".".join(parts[:depth]) for parts in (name.split(".") for name in graph) for depth in range(1, len(parts))}


def circles_of_packages(graph: Graph) -> list[list[str]]:
    """Circles among the members of a package that have a package in them."""
    known = packages(graph)
    found = [circle for package in sorted(known) for circle in circles(members(graph, package))]
    return [sorted(circle) for circle in found if circle & known]


def test_no_circle_of_modules_is_larger_than_two() -> None:
    found = [sorted(circle) for circle in circles(imports()) if len(circle) > 2]
    assert found == []


def test_no_circle_has_a_package_in_it() -> None:
    assert circles_of_packages(imports()) == []


def test_a_circle_of_packages_is_found() -> None:
    graph = {"a": set[str](), "a.b": {"a.c.d"}, "a.c": set[str](), "a.c.d": {"a.e"}, "a.e": {"a.c.f"}, "a.c.f": set[str]()}
    assert circles(graph) == []
    assert circles_of_packages(graph) == [["a.c", "a.e"]]


def test_a_circle_of_three_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str]()}
    assert circles(graph) == [{"a", "b", "c"}]
