"""`query`, `explain` and `fidelity`: what the merged table holds, why, and how far to trust it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import (
    AsOfOption,
    EngineOption,
    FormatOption,
    LogFormatOption,
    ProjectOption,
    SelectOption,
    StrategyOption,
    TableArgument,
    check_selected,
)
from cdc_views.cli.printing import as_json_rows, check_format, is_json, print_rows
from cdc_views.cli.quarantined import warn_of_quarantine

_WhereOption = Annotated[str | None, typer.Option("--where", metavar="SQL", help="A condition over the columns (DuckDB's SQL).")]
_ColumnsOption = Annotated[list[str] | None, typer.Option("--columns", metavar="COLUMN", help="A column; may be repeated.")]
_LandedOption = Annotated[str | None, typer.Option("--landed-as-of", metavar="INSTANT", help="Without what landed later.")]
_WrittenOption = Annotated[str | None, typer.Option("--written-as-of", metavar="INSTANT", help="Without what was written later.")]
_FIDELITY_COLUMNS = ("table", "column", "verdict", "reason", "case", "waived")


def query(
    table: TableArgument,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
    where: _WhereOption = None,
    columns: _ColumnsOption = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="At most N rows.")] = None,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    raw_only: Annotated[bool, typer.Option("--raw-only", help="Do not read state, to compare.")] = False,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only what a quorum of the replicas has shown.")] = False,
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print the rows of the merged table; needs no apply and no materialize."""
    from cdc_views.api import Project

    check_format(format)
    check_selected(table, select)
    target = Project.load(project).table(table)
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
        (log.warning if target.is_found else log.info)(result.note)
    print_rows(result.columns, result.json_rows() if is_json(format) else result.shown_rows(), format=format)


def explain(
    table: TableArgument,
    key: Annotated[
        str, typer.Option("--key", metavar="JSON", help="The row key as a JSON object; partition columns only: its statics.")
    ],
    column: Annotated[str | None, typer.Option("--column", metavar="COLUMN", help="Only this column.")] = None,
    as_of: AsOfOption = None,
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print every candidate for each cell of a row, the winner, the rule that decided, and where each came from."""
    from cdc_views.api import Project
    from cdc_views.cli.explanations import print_explanation
    from cdc_views.operations.explained import CANDIDATE_COLUMNS, candidate_rows

    check_format(format)
    check_selected(table, select)
    target = Project.load(project).table(table)
    explanation = target.explain(key, column=column, as_of=as_of)
    warn_of_quarantine(target)
    if format == "table":
        print_explanation(explanation)
    else:
        print_rows(CANDIDATE_COLUMNS, candidate_rows(explanation), format=format)


def fidelity(
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print per table and column how far the view can be trusted, and why; exit code 1 on UNSAFE that is not waived."""
    from cdc_views.api import Project
    from cdc_views.formats.base import Verdict

    check_format(format)
    lines = [line for table in Project.load(project).select(select or ()) for line in table.fidelity()]
    records = [
        {
            "table": line.table,
            "column": line.column,
            "verdict": line.verdict.value,
            "reason": line.reason,
            "case": line.case,
            "waived": line.waived or None,
        }
        for line in lines
    ]
    is_waived = any(line.waived for line in lines)
    columns = _FIDELITY_COLUMNS if is_waived or format != "table" else _FIDELITY_COLUMNS[:-1]
    print_rows(columns, as_json_rows(records), format=format)
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
