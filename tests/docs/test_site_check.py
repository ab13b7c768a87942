"""The check of the built site finds dead links and what is loaded from elsewhere; `make docs` runs it on the site."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "site"))

import check_site

GOOD = """<html><head><link rel="stylesheet" href="style.css"></head><body><h1 id="top">x</h1>
<a href="other.html#here">a</a> <a href="#top">b</a> <a href="https://elsewhere.example/">c</a> <img src="p.png"></body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text('<p id="here">x</p>')
    (tmp_path / "style.css").write_text("body { color: black }")
    (tmp_path / "p.png").write_bytes(b"")
    return tmp_path


def test_a_whole_site_has_no_problem(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_site.problems(site) == []
    assert check_site.main(str(site)) == 0
    assert "2 pages, 0 problems" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("other.html#here", "another.html", "index.html: another.html: no such file"),
        ("other.html#here", "other.html#there", "index.html: other.html#there: no such place"),
        ("#top", "#bottom", "index.html: #bottom: no such place"),
        ("p.png", "q.png", "index.html: q.png: no such file"),
        ("p.png", "https://elsewhere.example/p.png", "index.html: loads https://elsewhere.example/p.png"),
        ("style.css", "//fonts.example/f.css", "index.html: loads //fonts.example/f.css"),
    ],
)
def test_each_problem_is_found(site: Path, right: str, wrong: str, problem: str) -> None:
    assert right in GOOD
    (site / "index.html").write_text(GOOD.replace(f'"{right}"', f'"{wrong}"'))
    assert check_site.problems(site) == [problem]
    assert check_site.main(str(site)) == 1


@pytest.mark.parametrize(
    "sheet", ["@import 'https://fonts.example/f.css';", "p { background: url(https://elsewhere.example/b.png) }"]
)
def test_what_a_style_sheet_loads_is_found(site: Path, sheet: str) -> None:
    (site / "style.css").write_text(sheet)
    assert len(check_site.problems(site)) == 1


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert check_site.main(str(tmp_path)) == 1
