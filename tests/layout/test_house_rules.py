"""Rules of the house that no linter knows: sizes, names that stand once, few flags. CONTRIBUTING has them in words."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdc_views", "spark/cdc_views_spark", "bigquery/cdc_views_bigquery", "producers/cdc_producers")
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 40
MOST_FLAGS_OF_A_CLASS = 4
MOST_NAMES_AT_THE_TOP = 22


def modules(package: str) -> Iterator[tuple[str, str]]:
    """(path, text) of each module of a package."""
    for file in sorted((ROOT / package).rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def long_files(path: str, text: str) -> list[str]:
    lines = text.count("\n")
    return [f"{path}: {lines} lines"] if lines > MOST_LINES_OF_A_FILE else []


def long_functions(path: str, text: str) -> list[str]:
    """Functions that are too long, decorators left out."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = [(n.name, (n.end_lineno or 0) - n.lineno + 1) for n in functions]
    return [f"{path}: {name}: {size} lines" for name, size in sizes if size > MOST_LINES_OF_A_FUNCTION]


def flags_of(node: ast.ClassDef) -> list[str]:
    """Attributes that a class itself declares as booleans."""
    declared = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return [
        ast.unparse(n.target) for n in declared if "bool" in ast.unparse(n.annotation).replace("[", " ").replace("]", " ").split()
    ]


def classes_of_many_flags(path: str, text: str) -> list[str]:
    classes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]
    return [f"{path}: {n.name}: {', '.join(flags_of(n))}" for n in classes if len(flags_of(n)) > MOST_FLAGS_OF_A_CLASS]


def classes_twice(texts: list[tuple[str, str]]) -> list[str]:
    """Public classes whose name stands more than once among modules."""
    places = defaultdict(list)
    for path, text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def methods_without_words(texts: list[tuple[str, str]]) -> list[str]:
    """Public methods that neither they themselves nor a class that they inherit from explains."""
    classes = [(path, n) for path, text in texts for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]

    def methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and not n.name.startswith("_")]

    def is_explained(node: ast.ClassDef, method: str) -> bool:
        own = any(ast.get_docstring(n) for n in methods(node) if n.name == method)
        return own or any(is_explained_by(ast.unparse(base).partition("[")[0].rpartition(".")[2], method) for base in node.bases)

    def is_explained_by(name: str, method: str) -> bool:
        known = [node for _, node in classes if node.name == name]
        foreign = name not in ("Protocol", "Generic", "Enum", "object")
        return any(is_explained(node, method) for node in known) if known else foreign

    public = [(path, node) for path, node in classes if not node.name.startswith("_")]
    return [f"{path}: {node.name}.{n.name}" for path, node in public for n in methods(node) if not is_explained(node, n.name)]


@pytest.mark.parametrize("check", [long_files, long_functions, classes_of_many_flags])
@pytest.mark.parametrize("package", PACKAGES)
def test_sizes(package: str, check: type) -> None:
    assert [line for path, text in modules(package) for line in check(path, text)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_class_name_stands_once_in_a_package(package: str) -> None:
    assert classes_twice(list(modules(package))) == []


def test_public_methods_are_explained_where_they_are_declared() -> None:
    assert methods_without_words([one for package in PACKAGES for one in modules(package)]) == []


def test_the_top_of_cdc_views_fits_on_a_page() -> None:
    # a folder without modules is what an earlier checkout has left
    names = {path.name for path in (ROOT / "cdc_views").iterdir() if path.is_file() or [*path.rglob("*.py")]}
    assert len(names) <= MOST_NAMES_AT_THE_TOP, sorted(names)


def test_each_check_finds_what_it_looks_for() -> None:
    assert long_files("a.py", "x = 1\n" * 401) == ["a.py: 401 lines"]
    assert long_functions("a.py", "def f():\n" + "    x = 1\n" * 40) == ["a.py: f: 41 lines"]
    five = "class A:\n" + "".join(f"    {name}: bool = False\n" for name in "abcd") + "    e: ClassVar[bool] = True\n"
    assert classes_of_many_flags("a.py", five) == ["a.py: A: a, b, c, d, e"]
    assert classes_twice([("a.py", "class A: ..."), ("b.py", "class A: ...\nclass _B: ...")]) == ["A: a.py, b.py"]
    base = 'class A(Protocol):\n    def f(self):\n        """Do it."""\n    def _g(self): ...\n'
    assert methods_without_words([("a.py", base), ("b.py", "class B(A):\n    def f(self): ...\n    def h(self): ...")]) == [
        "b.py: B.h"
    ]
