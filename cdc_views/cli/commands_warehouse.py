"""`status`, `doctor` and `cost`: the status of each table, of the installation, and what reading costs in a warehouse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.sax.saxutils import escape

import typer

from cdc_views.cli.log import log
from cdc_views.cli.printing import fields_of
from cdc_views.cli.shared import DEFAULT_PROJECT, Request, TableArgument, check_writable, shared
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.engines.warehouses import Cost, Load, Measured, StateStanding, WarehousePlugin
    from cdc_views.table import Table

_WAREHOUSE = ("raw", "raw_rows", "raw_bytes", "view", "view_state")
_STATE = ("state", "state_rows", "state_bytes", "state_landed", "state_ran_at")
_STANDING = ("table", "raw_version", "raw_facts", "changed_at", "quarantined", "state", "state_version", "unmerged", "problem")
_COSTS = ("way", "query_bytes", "run_bytes", "kept_bytes", "query_money", "run_money", "kept_money", "money", "currency")
_FINDINGS = ("what", "health", "found", "remedy")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 420, 70, 110, 40, 50
_QUERIES = tuple(round(10 ** (step / 4)) for step in range(17))
"""1 to 10,000 reads per day."""
_COLORS = ("#b3261e", "#1f5fa8", "#2e7d32")


@shared("project", "select", "format")
def status(asked: Request) -> None:
    """Show what landed, how current each table is, and what is wrong.

    Exit code 1 if it finds a problem.
    """
    if asked.project.is_remote:
        _remote_status(asked)
        return
    from cdc_views.operations.status import status_of

    found = [status_of(table) for table in asked.tables]
    # what only some projects have
    more = [name for name in ("registered", "verified_through") if any(getattr(one, name) is not None for one in found)]
    columns = (*_STANDING, *more)
    asked.print(columns, ({**fields_of(one, columns), "problem": one.problem or None} for one in found))
    for one in found:
        if one.problem:
            log.error(one.problem)
    if any(one.problem for one in found):
        raise typer.Exit(1)


@shared("project", "format")
def doctor(asked: Request) -> None:
    """Show what this installation lacks for the project, and the remedy.

    Python, packages, engine, Java, warehouse, schemas and tables. Without a project file, packages alone. Exit code 1 if
    something that the project needs is missing.
    """
    from cdc_views.operations.doctor import Health, examine

    is_there = asked.project_file.is_file()
    if not is_there and asked.project_file != DEFAULT_PROJECT:
        raise UsageError(f"there is no project file {asked.project_file}; correct --project")
    found = list(examine(asked.project if is_there else None))
    asked.print(_FINDINGS, ({**fields_of(one, _FINDINGS), "health": one.health.value} for one in found))
    if not is_there:
        log.info(f"no {asked.project_file} here; `cdc-views init --from SCHEMA` writes one")
    broken = [one for one in found if one.health is Health.BROKEN]
    for one in broken:
        log.error(f"{one.what}: {one.found}{f'; {one.remedy}' if one.remedy else ''}")
    if broken:
        raise typer.Exit(1)


def _remote_status(asked: Request) -> None:
    from cdc_views.operations.generating import definition_of

    records = []
    with asked.project.remote() as engine:
        for table in asked.tables:
            found = engine.standing(definition_of(table))
            records.append({"table": table.name, **fields_of(found, _WAREHOUSE), **_of_state(found.state)})
    asked.print(("table", *_WAREHOUSE, *_STATE), records)


def _of_state(state: StateStanding | None) -> dict[str, object]:
    if state is None:
        return dict.fromkeys(_STATE)
    landed, ran_at = (None if at is None else at.isoformat() for at in (state.landed, state.ran_at))
    return dict(zip(_STATE, (state.name, state.rows, state.bytes, landed, ran_at), strict=True))


def _count(what: str) -> Any:
    return typer.Option(min=0, metavar="N", help=what)


@shared("project", "format")
def cost(
    asked: Request,
    *,
    table: TableArgument,
    rows: Annotated[int | None, _count("Keys that the table has; default: as many as facts.")] = None,
    facts: Annotated[int | None, _count("Facts in raw at the start; default: as measured.")] = None,
    facts_per_day: Annotated[int, _count("Facts that land in a day, every replica's copy counted.")] = 100_000,
    queries_per_day: Annotated[int, _count("Reads of the table in a day.")] = 100,
    runs_per_day: Annotated[int, _count("Runs that bring a state up to date in a day.")] = 24,
    text_bytes: Annotated[int, _count("Mean width of a text, where nothing is measured.")] = 20,
    share: Annotated[float, typer.Option(min=0, max=1, metavar="F", help="Share of the columns that a query reads.")] = 1.0,
    offline: Annotated[bool, typer.Option("--offline", help="Contact no service; use the schema and the given numbers.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write cost by reads per day, as SVG.")] = None,
) -> None:
    """Estimate what a month costs in BigQuery.

    As a view over raw, a state with the events since, or a serving table.
    """
    check_writable({"--plot": plot})
    from cdc_views.engines.warehouses import Load
    from cdc_views.operations.generating import taken_away

    found = asked.table(table)
    load = Load(rows, facts, facts_per_day, queries_per_day, runs_per_day, text_bytes, share)
    measured = None if offline or not found.project.is_remote else _measured(found)
    if load.facts is None and (measured is None or not measured.facts):
        raise UsageError("how many facts raw holds is not known here; say it with --facts N (and --rows N for the keys)")
    place, config = _priced(found), found.project.config
    view = taken_away(found, place)
    costs = place.costs(config, view, load, measured)
    asked.print(
        _COSTS, ({n: round(v, 4) if isinstance(v, float) else v for n, v in fields_of(way, _COSTS).items()} for way in costs)
    )
    if plot is not None:
        text = _cost_plot(lambda changed: place.costs(config, view, changed, measured), load, title=table)
        plot.write_text(text, encoding="utf-8")
        log.info(f"wrote {plot}")


def _priced(table: Table) -> WarehousePlugin:
    """Return the project's warehouse, otherwise the only installed one, to which the project may move."""
    from cdc_views.engines.plugin import engines_that
    from cdc_views.engines.warehouses import warehouse_plugin

    if table.project.is_remote:
        return table.project.warehouse_plugin
    known = engines_that(lambda plugin: plugin.keeps_tables)
    found = warehouse_plugin(known[0]) if len(known) == 1 else None
    if found is None:
        raise UsageError(f"{len(known)} warehouses are installed ({', '.join(known)}); name one as `engine:` in the project file")
    return found


def _measured(table: Table) -> Measured | None:
    from cdc_views.engines.warehouses import Measured
    from cdc_views.operations.generating import definition_of

    with table.project.remote() as engine:
        found = engine.plan(definition_of(table))
    reads = found.raw_bytes if found.estimate is None else found.estimate.reads
    return Measured(found.raw_rows, found.raw_bytes, reads) if found.raw_rows else None


def _cost_plot(costs: Callable[[Load], Sequence[Cost]], load: Load, *, title: str) -> str:
    points = [costs(replace(load, queries_per_day=queries)) for queries in _QUERIES]
    money = [max(way.money, 0.001) for ways in points for way in ways]
    low, high = math.floor(math.log10(min(money))), max(math.ceil(math.log10(max(money))), math.floor(math.log10(min(money))) + 1)
    lines = []
    for index, way in enumerate(points[0]):
        places = [(_x(q), _y(max(ways[index].money, 0.001), low, high)) for q, ways in zip(_QUERIES, points, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        color = _COLORS[index % len(_COLORS)]
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        x, y = places[-1]
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 4 - 12 * index:.1f}" fill="{color}">{escape(way.way)}</text>')
    shown = escape(f"{title}: money per month ({points[0][0].currency}) by reads in a day")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="12"><title>{shown}</title><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{_LEFT}" y="22" font-size="14">{shown}</text>'
    )
    return "\n".join([head, *_axes(low, high), *lines, "</svg>", ""])


def _axes(low: int, high: int) -> list[str]:
    found = []
    for power in range(low, high + 1):
        y = _y(10.0**power, low, high)
        found.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        found.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for power in range(5):
        x = _x(10**power)
        found.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        found.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>')
    return found


def _x(queries: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(queries) / 4


def _y(money: float, low: int, high: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (math.log10(money) - low) / (high - low)
