"""Sphinx builds docs/ into a site: `make docs`. Nothing in it asks another host for anything when it is read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
project = "cdc-views"
author = "the authors of cdc-views"
project_copyright = "Apache-2.0"
version = release = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[0]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
exclude_patterns = ["site", "generate", "examples"]
myst_heading_anchors = 6
nitpicky = True

html_theme = "furo"
html_title = f"cdc-views {version}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "default"


DOCS = ROOT / "docs"


def setup(app: Any) -> None:
    """Read the index's lists as the site's navigation, and take links to files outside docs/ as names."""
    app.connect("source-read", _without_outer_links)
    app.connect("source-read", _with_navigation)
    app.connect("build-finished", _with_a_front_page)


def _without_outer_links(app: Any, name: str, text: list[str]) -> None:
    """The site has no copy of the repository, so a file outside docs/ is named, not linked."""
    folder = (DOCS / name).parent

    def replaced(found: re.Match[str]) -> str:
        file = found[2].partition("#")[0]
        target = (folder / file).resolve()
        is_page = target.is_relative_to(DOCS) and target.is_file() and target.suffix == ".md"
        is_left = not file or is_page or not target.exists()  # what is missing is for Sphinx to complain of
        return found[0] if is_left else _named(found[1], target)

    text[0] = re.sub(r"(?<!!)\[([^\[\]]*)\]\((?![a-z]+:)([^()\s]+)\)", replaced, text[0])


def _named(label: str, target: Path) -> str:
    path = target.relative_to(ROOT).as_posix()
    return f"`{path}`" if label.strip("`") in path else f"{label} (`{path}`)"


def _with_navigation(app: Any, name: str, text: list[str]) -> None:
    """A hidden table of contents per section of the index: the pages that its list links, in order, without their kind."""
    if name != root_doc:
        return
    for section in re.split(r"^## ", text[0], flags=re.MULTILINE)[1:]:
        listed = re.findall(r"^- .*", section, re.MULTILINE)  # a table of ways through the pages is no list of them
        pages = [page for line in listed for page in re.findall(r"\]\(([\w/-]+)\.md\)", line)]
        if pages:
            caption = section.splitlines()[0]
            named = [_entry(page) for page in pages]
            text[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *named, "```", ""])


def _entry(page: str) -> str:
    """A page's line of the navigation: a heading above says that it is a tutorial."""
    title = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    short = title.removeprefix("Tutorial: ")
    return page if short == title else f"{short[:1].upper()}{short[1:]} <{page}>"


def _with_a_front_page(app: Any, error: Exception | None) -> None:
    """A folder is opened at index.html; the index is called README for readers on a forge."""
    if error is None:
        out = Path(app.outdir)
        shutil.copyfile(out / "README.html", out / "index.html")
