"""The pages of a project as a server has them: which facts each needs, and how they become HTML."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cdc_views.errors import CdcViewsError, UsageError
from cdc_views.formats.base import WriteOrder
from cdc_views.landing.quarantine import waiting
from cdc_views.model.schema import Column
from cdc_views.model.types import INTEGER_BITS, Scalar
from cdc_views.operations.context import TableContext
from cdc_views.operations.run_records import runs_of
from cdc_views.operations.status import status_of
from cdc_views.pages import cells, rows
from cdc_views.pages import waiting as waiting_events
from cdc_views.pages.checking import checks_page
from cdc_views.pages.columns import columns_page, null_counts
from cdc_views.pages.home import home_page
from cdc_views.pages.instants import instants_page
from cdc_views.pages.landings import landings_page
from cdc_views.pages.nodes import nodes_part
from cdc_views.pages.proving import proof_page
from cdc_views.pages.rendering import OF_LOGS, Links, rendered
from cdc_views.pages.server.surveying import Survey
from cdc_views.quality.validating import validate_table
from cdc_views.rules.codec.times import second_text

MOST_OFFSET = 10_000_000


@dataclass(frozen=True)
class Asked:
    """What a request asks for: its query, and the clock, in epoch seconds."""

    query: Mapping[str, str]
    now: int

    def text(self, name: str) -> str:
        """Return a value of the query; empty if it is not there."""
        return self.query.get(name, "").strip()

    def number(self, name: str) -> int:
        """Return a number of the query; 0 if it is not there. Raises `UsageError` for anything else."""
        text = self.query.get(name, "") or "0"
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > MOST_OFFSET:
            raise UsageError(f"{name} is {text[:40]!r}; a number up to {MOST_OFFSET:,} was expected")
        return int(text)


@dataclass
class Site:
    """A project's pages. `load` returns the project at `file`, which is read again when it changes; an invalid file keeps the
    last valid one. `form_token` is what forms send back; empty where nothing may be acted on.
    """

    load: Callable[[], Any]
    file: Path
    form_token: str = ""
    links: Links = field(default_factory=Links)
    _project: Any = None
    _stamp: int = -1
    _survey: Survey | None = None

    @property
    def project(self) -> Any:
        """The project as its file says now; raises `ConfigError` if it was never valid."""
        try:
            stamp = self.file.stat().st_mtime_ns
        except OSError:
            stamp = self._stamp
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._project = self.load()
                self._survey = Survey(lambda: self._project.tables, lambda: runs_of(self._project, "validate"))
            except CdcViewsError:
                if self._project is None:
                    raise
        return self._project

    def table(self, slug: str) -> TableContext:
        """Return the table of a page; raises `KeyError` if there is none."""
        found: dict[str, TableContext] = {table.config.slug: table for table in self.project.tables}
        return found[slug]

    def shared(self, asked: Asked) -> dict[str, Any]:
        """Return what every page needs."""
        project, links = self.project, self.links
        if project.is_remote:
            links = replace(links, tabs={page: called for page, called in links.tabs.items() if page not in OF_LOGS})
        about = {"project": project.config.name, "engine": project.config.engine, "version": version("cdc-views")}
        return {**about, "links": links, "now": asked.now, "actions": bool(self.form_token)}

    def home(self, asked: Asked) -> str:
        """Return the first page."""
        project = self.project
        assert self._survey is not None
        known, search = self._survey.lines(), asked.text("q")
        latest = runs_of(project, most=8)
        names = {config.name: config.slug for config in project.config.tables}
        home = home_page(names, known, search=search, offset=asked.number("offset"), runs=reversed(latest))
        return rendered("home", home=home, search=search, **self.shared(asked))

    def page(self, table: TableContext, page: str, asked: Asked, *, more: Mapping[str, Any] | None = None) -> str:
        """Return a page of a table; raises `KeyError` for one that there is not, and what the operations raise."""
        if page in OF_LOGS:
            table.project.check_raw_tables_are_local()
        facts = _FACTS[page](self, table, asked)
        return rendered(
            facts.pop("template", page),
            **{**facts, **(more or {})},
            page=page,
            name=table.name,
            slug=table.config.slug,
            quarantined=_waiting(table),
            **self.shared(asked),
        )

    @staticmethod
    def nodes_part(table: TableContext) -> str:
        """Return the part of a page that counts copies by node."""
        return rendered("nodes", links=Links(), part=nodes_part(table))


def _waiting(table: TableContext) -> int:
    return 0 if table.project.is_remote else waiting(table.raw)[0]


def _rows(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    names = ("where", "order", "as_of", "landed_as_of", "written_as_of")
    given: Any = {name: asked.text(name) for name in names}
    wanted = rows.RowsAsked(**given, offset=asked.number("offset"), first_column=asked.number("first"))
    key = table.schema.row_key[0]
    return {
        "rows": rows.rows_page(table, wanted, as_of=asked.now),
        "page_size": rows.PAGE,
        "across": rows.ACROSS,
        "is_micros": _is_micros(table),
        "example": _example(key),
    }


def _example(column: Column) -> str:
    name = column.name if column.name.isidentifier() else '"' + column.name.replace('"', '""') + '"'
    is_number = isinstance(column.type, Scalar) and column.type.kind in INTEGER_BITS
    return f"{name} = {'1' if is_number else repr('x')}"


def _cell(site: Site, table: TableContext, asked: Asked, *, of_row: bool = False) -> dict[str, Any]:
    column, as_of = "" if of_row else asked.text("column"), asked.text("as_of")
    found = cells.cell_page(
        table, asked.query.get("key", ""), column=column, as_of=as_of or asked.now, offset=asked.number("offset")
    )
    return {"template": "cell", "cell": found, "asked_as_of": as_of, "past": asked.text("past"), "candidates_page": cells.PAGE}


def _columns(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    counted = null_counts(table, as_of=asked.now) if asked.text(READS_ALL["columns"]) == "1" else None
    return {"columns": columns_page(table, counted=counted)}


def _instants(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    before, after, clock = asked.text("before"), asked.text("after"), asked.text("clock") or "landed_as_of"
    if clock not in ("as_of", "landed_as_of", "written_as_of"):
        raise UsageError("clock is none of as_of, landed_as_of and written_as_of")
    is_asked = bool(before and after)
    fixed = {} if clock == "as_of" else {"as_of": asked.now}
    sides = ({clock: before, **fixed}, {clock: after, **fixed}) if is_asked else ()
    found = instants_page(table, *sides)
    earliest = "" if found.first is None or clock != "landed_as_of" else second_text(found.first // 1000)
    return {"instants": found, "before": before or earliest, "after": after or second_text(asked.now), "clock": clock}


def _landings(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    return {"landings": landings_page(table, runs_of(table.project, "materialize"))}


def _nodes(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    return {"template": "nodes_page", "part": nodes_part(table)}


def _quarantine(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    found = waiting_events.waiting_page(table, offset=asked.number("offset"))
    return {"waiting": found, "page_size": waiting_events.PAGE, "csrf": site.form_token, "done": ""}


def _tests(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    report = validate_table(table, as_of=asked.now, now=asked.now) if asked.text(READS_ALL["tests"]) == "1" else None
    return {"tests": checks_page(table, runs_of(table.project, "validate"), report)}


def _proof(site: Site, table: TableContext, asked: Asked) -> dict[str, Any]:
    try:
        status, problem = status_of(table), ""
    except CdcViewsError as error:
        status, problem = None, str(error)
    has_state = status is not None and status.state is not None
    records = runs_of(table.project, "verify", "rebuild")
    return {"proof": proof_page(table, records), "problem": problem or (status.problem if status else ""), "has_state": has_state}


def _is_micros(table: TableContext) -> bool:
    return table.format.order is WriteOrder.MICROS


_FACTS: Mapping[str, Callable[[Site, TableContext, Asked], dict[str, Any]]] = {
    "rows": _rows,
    "row": partial(_cell, of_row=True),
    "cell": _cell,
    "columns": _columns,
    "instants": _instants,
    "landings": _landings,
    "nodes": _nodes,
    "quarantine": _quarantine,
    "tests": _tests,
    "proof": _proof,
}
READS_LOGS = frozenset({"columns", "landings", "quarantine", "proof"})
"""Pages that open no engine, unless `READS_ALL` is asked for."""
READS_ALL = {"columns": "nulls", "tests": "run"}
"""Of a page, the parameter that makes it read the whole table."""


def clock() -> int:
    """Return the instant, in epoch seconds."""
    return int(time.time())
