"""User documentation stays short enough to be read: its words, without code and the addresses of links."""

from __future__ import annotations

import re

from helpers.user_pages import ROOT, user_pages

MOST = 17_000
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def words(text: str) -> int:
    """The words of prose and tables."""
    prose = re.sub(r"\]\([^)]*\)", "]", _FENCE.sub("", text))
    return sum(1 for word in prose.split() if re.search(r"\w", word))


def test_user_documentation_is_short() -> None:
    counts = {page.relative_to(ROOT).as_posix(): words(page.read_text(encoding="utf-8")) for page in user_pages()}
    assert len(counts) > 40
    assert sum(counts.values()) <= MOST, sorted(counts.items(), key=lambda item: -item[1])[:12]


def test_words_are_counted_without_code_and_addresses() -> None:
    assert words("One [two](three/four.md) | five | --- |\n```sh\nsix seven\n```\neight `nine`") == 5
