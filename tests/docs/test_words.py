"""User documentation stays short enough to be read: its words, without code and the addresses of links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BY_HAND = {"semantics.md", "glossary.md"}
"""The pages of the reference that people write; the others come from the code."""
MOST = 17_000
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def words(text: str) -> int:
    """The words of prose and tables."""
    prose = re.sub(r"\]\([^)]*\)", "]", _FENCE.sub("", text))
    return sum(1 for word in prose.split() if re.search(r"\w", word))


def user_pages() -> list[Path]:
    """README and the pages of docs, without those for contributors and those that the code gives."""
    pages = [page for page in DOCS.rglob("*.md") if "internals" not in page.parts]
    return [ROOT / "README.md", *(page for page in pages if page.parent.name != "reference" or page.name in BY_HAND)]


def test_user_documentation_is_short() -> None:
    counts = {page.relative_to(ROOT).as_posix(): words(page.read_text(encoding="utf-8")) for page in user_pages()}
    assert len(counts) > 40
    assert sum(counts.values()) <= MOST, sorted(counts.items(), key=lambda item: -item[1])[:12]


def test_words_are_counted_without_code_and_addresses() -> None:
    assert words("One [two](three/four.md) | five | --- |\n```sh\nsix seven\n```\neight `nine`") == 5
