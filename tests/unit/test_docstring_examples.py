"""Examples in docstrings run, and print what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cdc_views", "bigquery/cdc_views_bigquery", "producers/cdc_producers", "spark/cdc_views_spark")


def modules_with_examples() -> list[str]:
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    with_examples = [file for file in files if ">>> " in file.read_text(encoding="utf-8")]
    parents = {folder: (ROOT / folder).parent for folder in FOLDERS}
    return [
        ".".join(file.relative_to(parent).with_suffix("").parts).removesuffix(".__init__")
        for file in with_examples
        for folder, parent in parents.items()
        if file.is_relative_to(ROOT / folder)
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_print_what_they_show(name: str) -> None:
    module = import_module(name)
    tests = doctest.DocTestFinder().find(module)
    assert any(test.examples for test in tests), "no docstring has the example"
    assert doctest.testmod(module).failed == 0


def test_a_wrong_example_fails() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1
