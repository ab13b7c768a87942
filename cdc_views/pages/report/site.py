"""Writes a report as a folder of pages: those of `cdc-views ui`, each with its style and script. A page makes no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cdc_views.errors import UsageError
from cdc_views.pages.checking import ChecksPage
from cdc_views.pages.home import home_page
from cdc_views.pages.rendering import FileLinks, rendered
from cdc_views.pages.report.model import RunReport, TableReport

INDEX = "index.html"


def pages_of(report: RunReport) -> dict[str, str]:
    """Return the HTML of each page, by file name, the first page last."""
    links = FileLinks({table.slug: table.page.removesuffix(".html") for table in report.tables})
    about = {"project": report.project, "engine": report.engine, "version": report.version}
    shared: dict[str, Any] = {"links": links, "run": report, "now": report.now, "actions": False, **about}
    found = dict[str, str]()
    for table in report.tables:
        found |= {name: rendered(template, **facts, **shared) for name, template, facts in _of_table(table, links)}
    return found | {INDEX: rendered("report", **_first(report), **shared)}


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


def _first(report: RunReport) -> dict[str, Any]:
    names = {table.name: table.slug for table in report.tables}
    home = home_page(names, {table.name: table.line for table in report.tables}, page_size=len(names) or 1)
    largest = max((sum(size for _, size, _ in table.sizes) for table in report.tables), default=0)
    failed = [(table, line) for table in report.tables for line in table.lines if line.status in ("error", "failed", "warning")]
    return {"home": home, "search": "", "largest": largest, "failed": sorted(failed, key=lambda one: one[1].status == "warning")}


def _of_table(table: TableReport, links: FileLinks) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the file, template and facts of each page of a table."""
    shared = {"name": table.name, "slug": table.slug, "quarantined": table.quarantined, "table": table}
    tests = ChecksPage(table.lines, None, (), (), (), ())
    facts: dict[str, dict[str, Any]] = {
        "figures": {},
        "columns": {"columns": table.columns},
        "landings": {"landings": table.landings, "part": table.nodes},
        "quarantine": {"waiting": table.waiting, "page_size": len(table.waiting.events) or 1, "csrf": "", "done": ""},
        "tests": {"tests": tests, "no_tests": table.no_checks},
        "proof": {"proof": table.proof, "problem": "", "has_state": table.state is not None, "part": table.nodes},
    }
    for page in links.tabs:
        yield links.file(table.slug, page), page, {**facts[page], "page": page, **shared}
    for number, row in enumerate(table.recent, 1):
        cell = {"cell": row.cell, "asked_as_of": "", "candidates_page": len(row.cell.candidates) or 1, "label": f"row {number}"}
        yield links.file(table.slug, f"row-{number}"), "cell", {**cell, "page": f"row-{number}", **shared}
