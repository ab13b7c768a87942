"""Writes a report as a folder of HTML pages. Each page contains its style, script and plots, and makes no request."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from cdc_views.errors import UsageError
from cdc_views.formats.base import Verdict
from cdc_views.operations.replication import ReplicaReport
from cdc_views.pages import plots, wording
from cdc_views.pages.checking import NAME_NO_KEYS
from cdc_views.pages.plots import BarPart
from cdc_views.pages.report.model import RawFigures, RunReport, TableReport
from cdc_views.pages.texts import ticked
from cdc_views.quality.checks import Check, Status
from cdc_views.sql.statements import template_folder

INDEX = "index.html"


def pages_of(report: RunReport) -> dict[str, str]:
    """Return the HTML of each page, by file name, the first page last."""
    environment = _environment()
    shared = {"run": report, **_inlined(), "places_of": lambda check: _places(check, with_values=report.has_values)}
    found = {}
    for table in report.tables:
        found[table.page] = environment.get_template("table.html.j2").render(table=table, **shared)
    return found | {INDEX: environment.get_template("index.html.j2").render(**shared)}


def write_site(report: RunReport, folder: Path) -> Path:
    """Write the pages into a folder, which need not exist; returns the first page. Raises `UsageError` if that fails."""
    pages = pages_of(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot be written ({error.strerror}); name a folder") from error
    return folder / INDEX


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(template_folder()) / "report"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = ("size", "span", "second", "micros", "share", "plain", "counted")
    found.filters |= {name: getattr(wording, name) for name in words}
    found.filters |= {"thousands": lambda amount: f"{amount:,}", "fromjson": json.loads}
    found.filters |= {"outcome": _outcome, "worst": worst, "ticked": ticked}
    found.globals |= {"copies_bar": _copies_bar, "distinct_bar": _distinct_bar, "landings_plot": _landings_plot}
    found.globals |= {"cost_bar": _cost_bar, "Status": Status, "Verdict": Verdict}
    return found


@cache
def _inlined() -> Mapping[str, Any]:
    """Return style, script, and the digest with which the page's policy allows only this script."""
    folder = Path(template_folder()) / "report"
    style, script = ((folder / name).read_text("utf-8") for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": Markup(style), "script": Markup(script), "digest": digest}


def _outcome(check: Check) -> str:
    if check.status is Status.FAILED:
        return f"does not hold for {check.broken:,} {check.unit}"
    return check.note if check.status is Status.SKIPPED else check.line()


def _places(check: Check, *, with_values: bool) -> tuple[str, ...]:
    """Return the places where a test does not hold; without values, none that may name a key."""
    names_no_key = check.name.partition(".")[0] in NAME_NO_KEYS
    return check.where if with_values or names_no_key else ()


def worst(table: TableReport) -> Verdict:
    """Return the worst verdict of a table's columns, without those that the project file waives."""
    order = list(Verdict)
    return max((line.verdict for line in table.fidelity if not line.waived), key=order.index, default=order[0])


def _distinct_bar(raw: RawFigures) -> Markup:
    distinct, removed = raw.distinct, raw.removed
    parts = [BarPart(distinct, f"{distinct:,} distinct facts", "good"), BarPart(removed, f"{removed:,} copies", "some")]
    return plots.bar(parts, label=f"{distinct:,} distinct facts and {removed:,} copies of them")


def _copies_bar(replicas: ReplicaReport) -> Markup:
    few, enough = replicas.incomplete, replicas.facts - replicas.incomplete
    parts = [BarPart(enough, f"{enough:,} cell facts on enough nodes", "good"), BarPart(few, f"{few:,} on too few", "bad")]
    return plots.bar(parts, label=f"{enough:,} cell facts were seen on enough nodes, {few:,} on too few")


def _landings_plot(raw: RawFigures) -> Markup:
    amounts = [(f"{wording.micros(one.at)}: {one.facts:,} facts", one.facts) for one in raw.landings]
    return plots.columns(amounts, label=f"{wording.counted(len(amounts), 'landing')}, {raw.facts:,} facts")


def _cost_bar(table: TableReport, run: RunReport) -> Markup:
    """Return a bar with the bytes of raw, state and serving table; the full width is the largest table."""
    whole = max(sum(size for _, size, _ in _sizes(one)) for one in run.tables)
    parts = [BarPart(size, f"{what}: {wording.size(size)}", kind) for what, size, kind in _sizes(table)]
    return plots.bar(parts, label=", ".join(part.title for part in parts), whole=whole)


def _sizes(table: TableReport) -> list[tuple[str, int, str]]:
    return [
        ("raw", table.raw.extent.size if table.raw is not None else 0, "some"),
        ("state", table.state.extent.size if table.state is not None else 0, "good"),
        ("serving table", table.serving.size if table.serving is not None else 0, "other"),
    ]
