"""The tests' own layout: helpers stand in `tests/helpers`, and tests/README.md names every folder and mark."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SHARED = ("helpers", "services", "workloads", "bench")
"""The folders whose modules others import, or run as programs."""
FOLDERS = sorted(path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__")
FILES = sorted(TESTS.rglob("*.py"))


def imported(text: str) -> Iterator[str]:
    """The modules that a source imports, in functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def is_test_module(module: str) -> bool:
    return module.rpartition(".")[2].startswith("test_")


def is_helper(path: Path) -> bool:
    return not (path.name.startswith("test_") or path.name == "conftest.py")


def test_no_module_imports_a_test_module() -> None:
    found = {str(file.relative_to(TESTS)): [*filter(is_test_module, imported(file.read_text("utf-8")))] for file in FILES}
    assert {file: modules for file, modules in found.items() if modules} == {}


def test_the_check_of_imports_can_fail() -> None:
    text = "import test_a\nfrom producers.test_b import c\ndef d():\n    from test_e import f\nfrom helpers.testing import g\n"
    assert {*filter(is_test_module, imported(text))} == {"test_a", "producers.test_b", "test_e"}


def test_helpers_stand_in_the_folders_for_helpers() -> None:
    misplaced = [path.relative_to(TESTS) for path in FILES if is_helper(path) and path.relative_to(TESTS).parts[0] not in SHARED]
    assert misplaced == [Path("demo.py")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_map_has_each_folder_once(folder: str) -> None:
    assert re.findall(r"^\| `(\w+)/` \|", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE).count(folder) == 1


def test_the_map_has_no_other_folder() -> None:
    assert {*re.findall(r"^\| `(\w+)/` \|", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE)} <= {*FOLDERS}


def test_the_map_has_each_mark() -> None:
    settings = (TESTS.parent / "pyproject.toml").read_text("utf-8").partition("\nmarkers = [\n")[2].partition("\n]")[0]
    marks = (TESTS / "README.md").read_text("utf-8").partition("## Marks")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", marks, re.MULTILINE) == sorted(re.findall(r'^  "(\w+): ', settings, re.MULTILINE))
