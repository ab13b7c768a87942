"""`history`: every version of a table's rows."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import AsOfOption, EngineOption, StrategyOption, TableArgument
from cdc_views.cli.printing import is_json
from cdc_views.cli.shared import Request, shared

_KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="JSON", help="Only this row, or partition, as a JSON object of its key columns.")
]
_ColumnsOption = Annotated[
    list[str] | None, typer.Option("--columns", "--column", metavar="COLUMN", help="A column beside the key; may be repeated.")
]
_WhereOption = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only versions for which this holds.")]
_LandedOption = Annotated[
    str | None, typer.Option("--landed-as-of", metavar="INSTANT", help="As it was known then: without what landed later.")
]
_WrittenOption = Annotated[str | None, typer.Option("--written-as-of", metavar="INSTANT", help="Without what was written later.")]


@shared("project", "select", "format")
def history(
    asked: Request,
    *,
    table: TableArgument,
    key: _KeyOption = None,
    columns: _ColumnsOption = None,
    where: _WhereOption = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="At most N versions.")] = None,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
) -> None:
    """Print one row per version of a row, with the span of the source's time in which it was valid; reads raw."""
    target = asked.table(table)
    found = target.history(
        key=key,
        columns=columns or (),
        where=where,
        limit=limit,
        as_of=as_of,
        landed_as_of=landed_as_of,
        written_as_of=written_as_of,
        engine=engine,
        strategy=strategy,
    )
    if found.note:
        (log.warning if target.is_external else log.info)(found.note)
    asked.print_json((*found.columns, *found.span_names), found.json_rows() if is_json(asked.format) else found.shown_rows())
