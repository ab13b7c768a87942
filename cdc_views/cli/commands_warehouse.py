"""`status` and `cost`: how each table stands, and what ways of reading one cost in a warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption, TableArgument
from cdc_views.cli.printing import as_json_rows, check_format, print_rows
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.api import Project
    from cdc_views.engines.warehouses import Load, Measured, StateStanding, WarehousePlugin
    from cdc_views.table import Table

_COLUMNS = (
    *("table", "raw", "raw_rows", "raw_bytes", "view", "view_state"),
    *("state", "state_rows", "state_bytes", "state_landed", "state_ran_at"),
)
_STANDING = ("table", "raw_version", "raw_facts", "changed_at", "quarantined", "state", "state_version", "unmerged", "problem")
_COSTS = ("way", "query_bytes", "run_bytes", "kept_bytes", "query_money", "run_money", "kept_money", "money", "currency")


def status(
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print how each table stands: what landed, how far the state is, what waits; exit code 1 where reads refuse."""
    from cdc_views.api import Project

    check_format(format)
    loaded = Project.load(project)
    if loaded.is_remote:
        _remote_status(loaded, select or (), format=format)
        return
    from cdc_views.operations.status import standing_of

    found = [standing_of(table) for table in loaded.select(select or ())]
    shown = [{**{name: getattr(standing, name) for name in _STANDING}, "problem": standing.problem or None} for standing in found]
    print_rows(_STANDING, as_json_rows(shown), format=format)
    for standing in found:
        if standing.problem:
            log.error(standing.problem)
    if any(standing.problem for standing in found):
        raise typer.Exit(1)


def _remote_status(loaded: Project, select: Sequence[str], *, format: str) -> None:
    """What BigQuery has of each table: rows and bytes of raw, whether the view is as planned, how far the state is."""
    from cdc_views.operations.generating import definition_of

    records = []
    with loaded.remote() as engine:
        for table in loaded.select(select):
            found = engine.standing(definition_of(table))
            record = {"table": table.name, "raw": found.raw, "raw_rows": found.raw_rows, "raw_bytes": found.raw_bytes}
            records.append({**record, "view": found.view, "view_state": found.view_state, **_of_state(found.state)})
    print_rows(_COLUMNS, as_json_rows(records), format=format)


def _of_state(state: StateStanding | None) -> dict[str, object]:
    if state is None:
        return dict.fromkeys(("state", "state_rows", "state_bytes", "state_landed", "state_ran_at"))
    landed, ran_at = (None if at is None else at.isoformat() for at in (state.landed, state.ran_at))
    known = {"state": state.name, "state_rows": state.rows, "state_bytes": state.bytes}
    return {**known, "state_landed": landed, "state_ran_at": ran_at}


def _count(what: str) -> Any:
    return typer.Option(min=0, metavar="N", help=what)


def cost(
    table: TableArgument,
    rows: Annotated[int | None, _count("Keys that the table has; default: as many as facts.")] = None,
    facts: Annotated[int | None, _count("Facts in raw at the start; default: as measured.")] = None,
    facts_per_day: Annotated[int, _count("Facts that land in a day, every replica's copy counted.")] = 100_000,
    queries_per_day: Annotated[int, _count("Reads of the table in a day.")] = 100,
    runs_per_day: Annotated[int, _count("Runs that bring a state up to date in a day.")] = 24,
    text_bytes: Annotated[int, _count("Mean width of a text, where nothing is measured.")] = 20,
    share: Annotated[float, typer.Option(min=0, max=1, metavar="F", help="Of the columns, how much a query reads.")] = 1.0,
    offline: Annotated[bool, typer.Option("--offline", help="Ask nobody: go by the schema and what is given.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write money by reads in a day, as SVG.")] = None,
    project: ProjectOption = Path("cdc_views.yml"),
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print what a month costs in BigQuery: reading a view of raw, a state and what landed since, or a serving table."""
    from cdc_views.api import Project
    from cdc_views.cli.cost_plot import cost_plot
    from cdc_views.engines.warehouses import Load
    from cdc_views.operations.generating import taken_away

    check_format(format)
    found = Project.load(project).table(table)
    load = Load(rows, facts, facts_per_day, queries_per_day, runs_per_day, text_bytes, share)
    measured = None if offline or not found.project.is_remote else _measured(found)
    _check_known(load, measured)
    place, config = _priced(found), found.project.config
    view = taken_away(found, place)
    costs = place.costs(config, view, load, measured)
    records = [{name: _shown(getattr(way, name)) for name in _COSTS} for way in costs]
    print_rows(_COSTS, as_json_rows(records), format=format)
    if plot is not None:
        text = cost_plot(lambda changed: place.costs(config, view, changed, measured), load, title=table)
        try:
            plot.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--plot {plot}: cannot be written ({error.strerror})") from error
        log.info(f"wrote {plot}")


def _priced(table: Table) -> WarehousePlugin:
    """The project's warehouse, or the only one that is installed, which the project may move to."""
    from cdc_views.engines.plugin import engines_that
    from cdc_views.engines.warehouses import warehouse_plugin

    if table.project.is_remote:
        return table.project.warehouse_plugin
    known = engines_that(lambda plugin: plugin.keeps_tables)
    found = warehouse_plugin(known[0]) if len(known) == 1 else None
    if found is None:
        raise UsageError(f"{len(known)} warehouses are installed ({', '.join(known)}); name one as `engine:` in the project file")
    return found


def _check_known(load: Load, measured: Measured | None) -> None:
    if load.facts is None and (measured is None or not measured.facts):
        raise UsageError("how many facts raw holds is not known here; say it with --facts N (and --rows N for the keys)")


def _measured(table: Table) -> Measured | None:
    """What BigQuery says of the raw table, by its statistics and a dry run."""
    from cdc_views.engines.warehouses import Measured
    from cdc_views.operations.generating import definition_of

    with table.project.remote() as engine:
        found = engine.plan(definition_of(table))
    reads = found.raw_bytes if found.estimate is None else found.estimate.reads
    return Measured(found.raw_rows, found.raw_bytes, reads) if found.raw_rows else None


def _shown(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value
