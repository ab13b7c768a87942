"""The pages that users read: README and docs, without the pages for contributors and those that the code gives."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BY_HAND = {"semantics.md", "glossary.md"}
"""The pages of the reference that people write; the others come from the code."""


def user_pages() -> list[Path]:
    """README and the pages of docs that people write for users."""
    pages = [page for page in DOCS.rglob("*.md") if "internals" not in page.parts]
    return [ROOT / "README.md", *(page for page in pages if page.parent.name != "reference" or page.name in BY_HAND)]
