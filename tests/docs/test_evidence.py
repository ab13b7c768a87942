"""Each claim of the user's pages has what shows it: docs/internals/evidence.md, whose rows are checked here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from helpers.user_pages import ROOT, user_pages

NO_RULE = "C" + "9"
EVIDENCE = ROOT / "docs" / "internals" / "evidence.md"
SEMANTICS = ROOT / "docs" / "reference" / "semantics.md"
_ROW = re.compile(r"^- “(?P<claim>.+)” (?P<shown>\S.*)$")
_SHOWN = re.compile(r"`(?P<code>[^`]+)`|rule (?P<rule>[A-Z]\d)(?:\.\d)?|<(?P<address>https://[^>]+)>")


@dataclass(frozen=True)
class Row:
    """A claim of a page, as its plain words, and what shows it."""

    page: str
    claim: str
    shown: str


def plain(text: str) -> str:
    """The words of a page, or of a piece of it: without marks and the addresses of links, one space between two words."""
    words = re.sub(r"\]\([^)\s]*\)|<!--.*?-->|^ *```.*$", "", text, flags=re.MULTILINE)
    return " ".join(re.sub(r"[\[\]`*\\]", "", words).replace("|", " ").split())


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of the page of evidence; raise `ValueError` for a line that is none."""
    page = ""
    for line in text.partition("\n## ")[2].splitlines():
        if not page or line.startswith("## "):
            page = line.removeprefix("## ")
        elif line:
            row = _ROW.match(line)
            if row is None:
                raise ValueError(line)
            yield Row(page, row["claim"], row["shown"])


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _stands(code: str) -> bool:
    if code.startswith("make "):
        return code.removeprefix("make ") in _targets()
    file, _, test = code.partition(" --")[0].partition("::")
    named = ROOT / file
    return file.startswith("tests/") and named.is_file() and (not test or f"def {test.rpartition('::')[2]}(" in _read(named))


def mistakes(row: Row, pages: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with a row, given each page's plain words."""
    times = pages.get(row.page, "").count(row.claim)
    if times != 1:
        yield f"{row.page} has {times} times: {row.claim}"
    found = list(_SHOWN.finditer(row.shown))
    if not found or _SHOWN.sub("", row.shown).strip(" ,"):
        yield f"{row.page}: {row.claim}: nothing that can be looked up: {row.shown}"
    for one in found:
        if one["code"] and not _stands(one["code"]):
            yield f"{row.page}: {row.claim}: there is no {one['code']}"
        if one["rule"] and f"\n### {one['rule']}: " not in _read(SEMANTICS):
            yield f"{row.page}: {row.claim}: there is no rule {one['rule']}"


@cache
def pages() -> dict[str, str]:
    """The plain words of each of the user's pages."""
    return {page.relative_to(ROOT).as_posix(): plain(_read(page)) for page in user_pages()}


def test_each_claim_stands_in_its_page_and_what_shows_it_is_there() -> None:
    found = list(rows(_read(EVIDENCE)))
    assert len(found) > 600
    assert [mistake for row in found for mistake in mistakes(row, pages())] == []


def test_each_page_that_tells_something_has_claims() -> None:
    without = set(pages()) - {row.page for row in rows(_read(EVIDENCE))}
    assert without == {
        "docs/README.md",
        "docs/reference/glossary.md",
        "docs/reference/semantics.md",
    }  # semantics: reference/rules.md


@pytest.mark.parametrize(
    ("row", "mistake"),
    [
        (Row("README.md", "It is never wrong", "`tests/demo.py`"), "0 times"),
        (Row("README.md", "cdc-views", "`tests/demo.py`"), "times"),
        (Row("none.md", "Is it for you?", "`tests/demo.py`"), "0 times"),
        (Row("README.md", "Is it for you?", "by our own word"), "nothing that can be looked up"),
        (Row("README.md", "Is it for you?", "`tests/demo.py`, and more"), "nothing that can be looked up"),
        (Row("README.md", "Is it for you?", "`tests/docs/test_evidence.py::test_that_is_gone`"), "there is no tests"),
        (Row("README.md", "Is it for you?", "`tests/gone.py`"), "there is no tests"),
        (Row("README.md", "Is it for you?", "`make gone`"), "there is no make"),
        (Row("README.md", "Is it for you?", f"rule {NO_RULE}"), "there is no rule"),
    ],
)
def test_a_mistake_is_noticed(row: Row, mistake: str) -> None:
    (found,) = mistakes(row, pages())
    assert mistake in found


def test_a_line_that_is_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="a claim"):
        list(rows("# Title\n\n## README.md\n\n- a claim\n"))
