"""Runs a notebook's cells as Jupyter does, without it: the last expression of a cell is what the cell shows."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells with code, in order."""
    return [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def shown_by(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Run the cells in one namespace, and yield what each shows as HTML; nothing: an empty text."""
    names: dict[str, Any] = {}
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        yield "" if value is None else value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


def kept_output(cell: dict[str, Any]) -> str:
    """The HTML that the notebook keeps of a cell; nothing: an empty text."""
    return "".join(part for output in cell["outputs"] for part in output.get("data", {}).get("text/html", ()))
