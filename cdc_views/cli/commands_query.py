"""`query`, `history`, `explain` and `fidelity`: what a table holds, what it held, why, and how far to trust it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.messages import warn_of_quarantine
from cdc_views.cli.printing import fields_of, is_json
from cdc_views.cli.shared import AsOfOption, EngineOption, Request, StrategyOption, TableArgument, shared

if TYPE_CHECKING:
    from cdc_views.operations.explaining import Explanation

_WhereOption = Annotated[str | None, typer.Option("--where", metavar="SQL", help="A condition over the columns (DuckDB's SQL).")]
_ColumnsOption = Annotated[list[str] | None, typer.Option("--columns", metavar="COLUMN", help="A column; may be repeated.")]
_LandedOption = Annotated[str | None, typer.Option("--landed-as-of", metavar="INSTANT", help="Without what landed later.")]
_WrittenOption = Annotated[str | None, typer.Option("--written-as-of", metavar="INSTANT", help="Without what was written later.")]
_KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="JSON", help="Only this row, or partition, as a JSON object of its key columns.")
]
_MoreColumnsOption = Annotated[
    list[str] | None, typer.Option("--columns", "--column", metavar="COLUMN", help="A column beside the key; may be repeated.")
]
_FIDELITY_COLUMNS = ("table", "column", "verdict", "reason", "case", "waived")


@shared("project", "select", "format")
def query(
    asked: Request,
    *,
    table: TableArgument,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
    where: _WhereOption = None,
    columns: _ColumnsOption = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most N rows.")] = None,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    raw_only: Annotated[bool, typer.Option("--raw-only", help="Ignore state, for a comparison.")] = False,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only facts that a quorum of the replicas has shown.")] = False,
) -> None:
    """Print the rows of the merged table; needs no apply and no materialize."""
    target = asked.table(table)
    result = target.query(
        as_of=as_of,
        where=where,
        columns=columns or (),
        limit=limit,
        engine=engine,
        raw_only=raw_only,
        confirmed=confirmed,
        strategy=strategy,
        landed_as_of=landed_as_of,
        written_as_of=written_as_of,
    )
    if result.note:
        (log.warning if target.is_external else log.info)(result.note)
    asked.print_json(result.columns, result.json_rows() if is_json(asked.format) else result.shown_rows())


@shared("project", "select", "format")
def history(
    asked: Request,
    *,
    table: TableArgument,
    key: _KeyOption = None,
    columns: _MoreColumnsOption = None,
    where: _WhereOption = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most N versions.")] = None,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
) -> None:
    """Print every version of each row, with its span of validity in the source's time; reads raw."""
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


@shared("project", "select", "format")
def explain(
    asked: Request,
    *,
    table: TableArgument,
    key: Annotated[
        str, typer.Option(metavar="JSON", help="The row key as a JSON object; the partition key alone for its statics.")
    ],
    column: Annotated[str | None, typer.Option(metavar="COLUMN", help="Only this column.")] = None,
    as_of: AsOfOption = None,
) -> None:
    """Print the candidates for each cell of a row, the winner, the deciding rule, and where each candidate came from."""
    from cdc_views.operations.explained import CANDIDATE_COLUMNS, candidate_rows, verdict

    target = asked.table(table)
    explanation = target.explain(key, column=column, as_of=as_of)
    warn_of_quarantine(target)
    if asked.format == "table":
        print(f"{target.name}, {_key_of(explanation)}: {verdict(explanation)}")
    asked.print_json(CANDIDATE_COLUMNS, candidate_rows(explanation))


def _key_of(explanation: Explanation) -> str:
    from cdc_views.rules.codec.jsontext import to_json

    kinds = {column.name: column.type for column in explanation.schema.row_key}
    return ", ".join(f"{name} = {to_json(kinds[name], value)}" for name, value in explanation.key.items())


@shared("project", "select", "format")
def fidelity(asked: Request) -> None:
    """Print per column how far to trust the view, and why; exit code 1 on an UNSAFE column without a waiver."""
    from cdc_views.formats.base import Verdict

    lines = [line for table in asked.tables for line in table.fidelity()]
    is_waived = any(line.waived for line in lines)
    columns = _FIDELITY_COLUMNS if is_waived or asked.format != "table" else _FIDELITY_COLUMNS[:-1]
    asked.print(columns, ({**fields_of(line, _FIDELITY_COLUMNS), "waived": line.waived or None} for line in lines))
    unsafe = [line for line in lines if line.verdict is Verdict.UNSAFE and not line.waived]
    for line in unsafe:
        what = "whole rows are" if line.column == "*" else f"column {line.column!r} is"
        log.error(f"{line.table}: {what} UNSAFE: {line.reason}")
    if unsafe:
        column = json.dumps(unsafe[0].column)
        log.error(
            "to accept what is UNSAFE, waive it in the project file with a reason, at its table: "
            f"`fidelity: {{waive: {{{column}: why it does not matter here}}}}`"
        )
        raise typer.Exit(1)
