"""The generated pages of docs/reference."""

from __future__ import annotations

from pathlib import Path

from of_api import api_page
from of_commands import commands_page
from of_errors import errors_page
from of_layout import layout_page, wire_page
from of_metrics import metrics_page
from of_project_file import project_file_page
from of_rules import rules_page

FOLDER = Path(__file__).parents[1] / "reference"
PAGES = {
    "commands.md": commands_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "project-file.md": project_file_page,
    "python-api.md": api_page,
    "raw-layout.md": layout_page,
    "rules.md": rules_page,
    "wire-format.md": wire_page,
}
BY_HAND = {"glossary.md", "semantics.md"}
"""The pages of the reference that people write."""


def stale(folder: Path = FOLDER) -> list[str]:
    """Return the names of pages in `folder` that differ from what the code gives, are missing, or have no code."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md") if path.name not in BY_HAND}
    wanted = {name: make() for name, make in PAGES.items()}
    return sorted(name for name in {*committed, *wanted} if committed.get(name) != wanted.get(name))


def write(folder: Path = FOLDER) -> list[str]:
    """Write the pages that differ, and return their names."""
    changed = stale(folder)
    folder.mkdir(exist_ok=True)
    for name in changed:
        if name in PAGES:
            (folder / name).write_text(PAGES[name](), encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed
