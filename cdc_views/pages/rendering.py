"""Pages as HTML, from one set of templates: the server and the exported site differ in their links alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from cdc_views.pages import drawing, plots, texts, wording
from cdc_views.pages.landings import LandedBatch
from cdc_views.rules.codec.times import second_text
from cdc_views.sql.statements import template_folder

PAGES: Mapping[str, str] = {
    "rows": "Rows",
    "columns": "Columns",
    "instants": "Instants",
    "landings": "Landings",
    "quarantine": "Quarantine",
    "tests": "Tests",
    "proof": "Proof",
}
"""The pages of a table, in the order of its tabs, and what people call them."""
ASSETS: Mapping[str, str] = {"app.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of pages, of a server whose root is `/`."""

    def home(self, **query: object) -> str:
        """Return the address of the first page."""
        return f"/{_query(query)}"

    def page(self, slug: str, page: str = "rows", **query: object) -> str:
        """Return the address of a table's page."""
        return f"/t/{quote(slug, safe='')}/{page}{_query(query)}"

    def asset(self, name: str) -> str:
        """Return the address of a style or script."""
        return f"/assets/{name}"


def _query(query: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in query.items() if value not in (None, "", 0)}
    return f"?{urlencode(given, errors='replace')}" if given else ""


def rendered(template: str, **values: Any) -> str:
    """Return the HTML of a page; what templates print is escaped."""
    return _environment().get_template(f"{template}.html.j2").render(**values)


def asset(name: str) -> bytes:
    """Return a style or script; raises `KeyError` for a name that is none."""
    _ = ASSETS[name]
    return (Path(template_folder()) / "pages" / name).read_bytes()


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(template_folder()) / "pages"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {name: getattr(wording, name) for name in ("size", "span", "roughly", "counted", "share")}
    found.filters |= {
        "seen": texts.visible,
        "lines": texts.visible_lines,
        "thousands": lambda amount: f"{amount:,}",
        "second": wording.second,
        "milli": lambda at: wording.second(at // 1000),
        "iso": second_text,
        "key": _key,
        "ticked": texts.ticked,
    }
    found.globals |= {"PAGES": PAGES, "timeline": drawing.timeline, "lineage_graph": drawing.lineage_graph}
    found.globals |= {"landings_plot": _landings_plot}
    return found


def _key(text: str) -> str:
    """Return a key's JSON for people: `tenant t1, seq 0`."""
    try:
        members = json.loads(text, parse_float=str)
    except ValueError:
        return texts.visible(text, most=200)
    if not isinstance(members, dict):
        return texts.visible(text, most=200)
    told = (
        f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for name, value in members.items()
    )
    return texts.visible(", ".join(told), most=200)


def _landings_plot(batches: tuple[LandedBatch, ...]) -> Markup:
    amounts = [(f"{wording.second(one.at // 1000)}: {one.facts:,} facts", one.facts) for one in batches]
    return plots.columns(amounts, label=f"{wording.counted(len(amounts), 'landing')}, {sum(n for _, n in amounts):,} facts")
