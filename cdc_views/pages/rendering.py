"""Pages as HTML, from one set of templates: the server and the exported site differ in their links alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from cdc_views.pages import drawing, plots, texts, wording
from cdc_views.pages.landings import LandedBatch, MaterializeRun
from cdc_views.pages.nodes import NodeLine, NodesPart
from cdc_views.pages.plots import BarPart
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
_EXPORTED = ("columns", "landings", "quarantine", "tests", "proof")
"""Those of them that need no server."""
OF_LOGS = frozenset({"landings", "nodes", "quarantine", "proof"})
"""Pages about Delta tables and what is beside them, which a remote warehouse does not have."""
ASSETS: Mapping[str, str] = {"app.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True)
class Links:
    """The addresses of pages, of a server whose root is `/`. `tabs` are the pages of a table, and what people call them; with
    `is_live` there are rows, cells and forms, too.
    """

    is_live: ClassVar[bool] = True
    tabs: Mapping[str, str] = field(default_factory=lambda: PAGES, kw_only=True)

    def home(self, **query: object) -> str:
        """Return the address of the first page."""
        return f"/{_query(query)}"

    def page(self, slug: str, page: str = "rows", **query: object) -> str:
        """Return the address of a table's page."""
        return f"/t/{quote(slug, safe='')}/{page}{_query(query)}"

    def asset(self, name: str) -> str:
        """Return the address of a style or script."""
        return f"/assets/{name}"


@dataclass(frozen=True)
class FileLinks(Links):
    """The addresses of an exported site's pages; `stems` are the files of tables, by slug, without their ends."""

    stems: Mapping[str, str] = field(default_factory=dict)
    is_live: ClassVar[bool] = False
    tabs: Mapping[str, str] = field(
        kw_only=True, default_factory=lambda: {"figures": "Figures", **{name: PAGES[name] for name in _EXPORTED}}
    )

    def home(self, **query: object) -> str:
        return "index.html"

    def page(self, slug: str, page: str = "figures", **query: object) -> str:
        return quote(self.file(slug, page))

    def file(self, slug: str, page: str) -> str:
        """Return the name of a page's file."""
        return f"{self.stems[slug]}.html" if page == "figures" else f"{self.stems[slug]}-{page}.html"


def _query(query: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in query.items() if value not in (None, "", 0)}
    return f"?{urlencode(given, errors='replace')}" if given else ""


def rendered(template: str, *, links: Links, **values: Any) -> str:
    """Return the HTML of a page; what templates print is escaped."""
    inlined = {} if links.is_live else _inlined()
    return _environment().get_template(f"{template}.html.j2").render(links=links, **inlined, **values)


@cache
def _inlined() -> Mapping[str, Any]:
    """Return style and script for pages that stand alone, and the digests by which their policy allows only these."""
    found: dict[str, Any] = {}
    for name, file in (("style", "app.css"), ("script", "app.js")):
        content = asset(file)
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        found |= {name: Markup(content.decode()), f"{name}_digest": digest}  # our own files
    return found


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
        "micros": wording.micros,
        "iso": second_text,
        "key": _key,
        "ticked": texts.ticked,
    }
    found.globals |= {"timeline": drawing.timeline, "lineage_graph": drawing.lineage_graph}
    found.globals |= {
        "landings_plot": _landings_plot,
        "runs_plot": _runs_plot,
        "volume_plot": _volume_plot,
        "delay_plot": _delay_plot,
        "bytes_bar": _bytes_bar,
        "copies_bar": _copies_bar,
    }
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


def _runs_plot(runs: Sequence[MaterializeRun]) -> Markup:
    timed = [(one, one.seconds) for one in runs if one.seconds is not None]
    amounts = [(f"{one.at[:19]}: {seconds:.1f} s", round(seconds * 1000)) for one, seconds in timed]
    return plots.columns(amounts, label=f"seconds of {wording.counted(len(amounts), 'run')} of materialize")


def _volume_plot(node: NodeLine, part: NodesPart) -> Markup:
    amounts = [(f"{wording.micros(one.since)}: {one.facts:,} facts", one.facts) for one in node.arrivals]
    return plots.columns(amounts, label=f"{sum(n for _, n in amounts):,} facts that landed over time", tallest=part.most_facts)


def _delay_plot(node: NodeLine, part: NodesPart) -> Markup:
    """Return the delay of each span of time in seconds, on one scale for all nodes."""
    delays = [(one.since, None if one.delay is None else max(one.delay, 0) // 1_000_000) for one in node.arrivals]
    told = ((since, "nothing landed" if delay is None else f"after {wording.span(delay)}", delay or 0) for since, delay in delays)
    amounts = [(f"{wording.micros(since)}: {text}", delay) for since, text, delay in told]
    longest = max((delay for _, delay in amounts), default=0)
    return plots.columns(amounts, label=f"time from write to landing, at most {wording.span(longest)}", tallest=part.slowest)


def _bytes_bar(sizes: Sequence[tuple[str, int, str]], whole: int) -> Markup:
    parts = [BarPart(size, f"{what}: {wording.size(size)}", kind) for what, size, kind in sizes]
    return plots.bar(parts, label=", ".join(part.title for part in parts), whole=whole)


def _copies_bar(distinct: int, copies: int) -> Markup:
    parts = [BarPart(distinct, f"{distinct:,} distinct facts", "good"), BarPart(copies, f"{copies:,} copies", "some")]
    return plots.bar(parts, label=f"{distinct:,} distinct facts and {copies:,} copies of them")
