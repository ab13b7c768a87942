"""`query`, `history`, `explain`, `fidelity` and `replicas`: a table's rows, their versions, their reasons, and trust in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.completion import table_names
from cdc_views.cli.log import log, warn_of_quarantine
from cdc_views.cli.printing import FORMATS, ROWS, WRITTEN, Appearance, check_format, fields_of
from cdc_views.cli.shared import (
    AsOfOption,
    ColumnsOption,
    EngineOption,
    Request,
    StrategyOption,
    TableArgument,
    columns_of,
    shared,
)
from cdc_views.cli.statements import is_statement, run_statement
from cdc_views.errors import UsageError
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.model.schema import TableSchema
    from cdc_views.operations.reading import OrderedOptions
    from cdc_views.operations.replication import PartialFact, ReplicaReport
    from cdc_views.operations.result import AnswerRows
    from cdc_views.table import Table

_QueriedArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE|SQL",
        help="keyspace.table, or its last part; or SQL that begins with SELECT, WITH or FROM.",
        autocompletion=table_names,
    ),
]
_WhereOption = Annotated[str | None, typer.Option(metavar="SQL", help="A condition over the columns (DuckDB's SQL).")]
_LandedOption = Annotated[str | None, typer.Option(metavar="INSTANT", help="Leave out what landed later.")]
_WrittenOption = Annotated[str | None, typer.Option(metavar="INSTANT", help="Leave out what was written later.")]
_KeyOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="Only this row, or partition, as a JSON object of its key columns.")
]
_FormatOption = Annotated[
    str | None,
    typer.Option(
        metavar=f"{FORMATS}|parquet",
        help="The format of rows; parquet only with --out. Default: table, or as --out ends; vertical for rows that a "
        "terminal is too narrow for.",
    ),
]
_OrderOption = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Order rows by it before the key; -COLUMN: descending. May be repeated."),
]
_OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Write to this path or URL, which ends in .parquet, .csv, .jsonl or .json; rows have no order."
    ),
]
_IntoOption = Annotated[
    str | None, typer.Option(metavar="TABLE", help="Write to a Delta table, a path or URL; rows have no order.")
]
_OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what --out or --into wrote before.")]
_CHOICE_COLUMNS = ("strategy", "why")
_CANDIDATE = 60
"""Letters of a candidate's value that a table shows: its line has six other columns."""
_FIDELITY_COLUMNS = ("table", "column", "verdict", "reason", "case", "waived")
_COPIES_COLUMNS = ("copies", "facts", "verdict")
_NODE_COLUMNS = ("node", "facts", "missing", "oldest_missing", "newest_written", "newest_position", "last_landed", "verdict")
_COLUMNS = ("part", "copies", *_NODE_COLUMNS)
_FACT_COLUMNS = ("key", "what", "column", "path", "written", "nodes", "missing_on")


@shared("project", "select")
def query(
    asked: Request,
    *,
    table: _QueriedArgument,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
    where: _WhereOption = None,
    columns: ColumnsOption = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most N rows.")] = None,
    order_by: _OrderOption = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Leave out N rows first.")] = 0,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    raw_only: Annotated[bool, typer.Option("--raw-only", help="Ignore state, for a comparison.")] = False,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Only facts that a quorum of the replicas has shown.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the strategy and the reason for it, and read no rows.")
    ] = False,
    out: _OutOption = None,
    into: _IntoOption = None,
    overwrite: _OverwriteOption = False,
    format: _FormatOption = None,
) -> None:
    """Print or write the rows of a merged table; needs no `apply`.

    SQL in the place of TABLE joins and aggregates tables, in the engine's own dialect: "SELECT … FROM shop.orders o JOIN …".
    """
    read = {
        "as_of": as_of, "where": where, "columns": columns, "limit": limit, "engine": engine, "strategy": strategy,
        "landed_as_of": landed_as_of, "written_as_of": written_as_of, "raw_only": raw_only, "confirmed": confirmed,
    }  # fmt: skip
    target = {"out": out, "into": into, "overwrite": overwrite}
    if is_statement(asked.project, table):
        if order_by or offset:
            raise UsageError("--order-by and --offset are of a TABLE; write ORDER BY and OFFSET in the SQL")
        run_statement(asked, table, {**read, "explain": explain, "select": asked.select}, target, format=format)
    else:
        order = {"order_by": order_by or (), "offset": offset}
        _query_table(asked, asked.table(table), {**read, **order}, target, is_explained=explain, format=format)


def _query_table(
    asked: Request, table: Table, given: dict[str, Any], target: dict[str, Any], *, is_explained: bool, format: str | None
) -> None:
    read: Any = {**given, "columns": columns_of(table, given["columns"])}
    if target["out"] is None and target["into"] is None:
        if target["overwrite"]:
            raise UsageError("--overwrite is of --out or --into; name one, or leave it out")
        _print_answer(replace(asked, format=check_format(format or "table")), table, read, is_explained=is_explained)
    elif is_explained:
        raise UsageError("--explain reads no rows, so there are none for --out or --into; leave one of them out")
    elif read["order_by"] or read["offset"]:
        raise UsageError("--order-by and --offset are of printed rows; what --out and --into write has no order")
    else:
        read = {name: value for name, value in read.items() if name not in ("order_by", "offset")}
        written = table.write(format=format, **target, **read)
        _log_note(table, written.note)
        log.info(written.line())


def _print_answer(asked: Request, target: Table, read: OrderedOptions, *, is_explained: bool) -> None:
    from cdc_views.operations.querying import streamed_query

    if is_explained:
        asked.print(_CHOICE_COLUMNS, [fields_of(target.choice(**read), _CHOICE_COLUMNS)])
        return
    with streamed_query(target, **read) as found:
        _print_rows(asked, target, found, found.columns, note=found.note)


def _log_note(table: Table, note: str) -> None:
    if note:
        (log.warning if table.is_external else log.info)(note)


def _print_rows(asked: Request, table: Table, found: AnswerRows, columns: Sequence[str], *, note: str) -> None:
    _log_note(table, note)
    is_json = asked.format in ("json", "jsonl")  # JSON has neither NaN nor infinities
    asked.print_json(columns, found.json_rows() if is_json else found.shown_rows(), ROWS)


@shared("project", "select", "format")
def history(
    asked: Request,
    *,
    table: TableArgument,
    key: _KeyOption = None,
    columns: ColumnsOption = None,
    where: _WhereOption = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most N versions.")] = None,
    as_of: AsOfOption = None,
    landed_as_of: _LandedOption = None,
    written_as_of: _WrittenOption = None,
    engine: EngineOption = None,
    strategy: StrategyOption = None,
) -> None:
    """Print every version of each row.

    Each with its span of validity in the source's time or log. Reads raw.
    """
    target = asked.table(table)
    found = target.history(
        key=key,
        columns=columns_of(target, columns),
        where=where,
        limit=limit,
        as_of=as_of,
        landed_as_of=landed_as_of,
        written_as_of=written_as_of,
        engine=engine,
        strategy=strategy,
    )
    _print_rows(asked, target, found, (*found.columns, *found.span_names), note=found.note)


@shared("project", "select", "format")
def explain(
    asked: Request,
    *,
    table: TableArgument,
    key: Annotated[
        str, typer.Option(metavar="JSON", help="The row key as a JSON object; the partition key alone for its statics.")
    ],
    columns: ColumnsOption = None,
    as_of: AsOfOption = None,
) -> None:
    """Show why each cell of a row has its value.

    All candidates of each cell: first the winner, then the ones that it beat, each with the rule that decided. Deletions
    that cover the row come last. Each line has the places in the source's log that it came from.
    """
    from cdc_views.operations.explained import CANDIDATE_COLUMNS, candidate_rows, summary

    target = asked.table(table)
    explanation = target.explain(key, column=columns_of(target, columns), as_of=as_of)
    warn_of_quarantine(target)
    if asked.is_for_people:
        print(summary(explanation))
    asked.print_json(CANDIDATE_COLUMNS, candidate_rows(explanation), _candidates_of(target))


def _candidates_of(table: Table) -> Appearance:
    """The appearance of candidates: whole-row sources order by log position, which is no time."""
    from cdc_views.formats.base import WriteOrder

    micros = frozenset({"written"} if table.format.order is WriteOrder.MICROS else ())
    optional = frozenset({"path", "ttl", "expires_at", "deleted_at"})
    return Appearance(
        micros, frozenset({"expires_at", "deleted_at"}), optional, copies=frozenset({"origins"}), null="", longest=_CANDIDATE
    )


@shared("project", "select", "format")
def fidelity(asked: Request) -> None:
    """Print how far each column can be trusted, and why.

    Exit code 1 on an UNSAFE column without a waiver.
    """
    from cdc_views.formats.base import Verdict

    lines = [line for table in asked.tables for line in table.fidelity()]
    is_waived = any(line.waived for line in lines)
    columns = _FIDELITY_COLUMNS if is_waived or not asked.is_for_people else _FIDELITY_COLUMNS[:-1]
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


@shared("project", "select", "format")
def replicas(
    asked: Request,
    *,
    table: TableArgument,
    replication_factor: Annotated[
        int | None, typer.Option(metavar="N", help="Replicas of each mutation; default: the project's.")
    ] = None,
    nodes: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Expect this node besides those seen; may be repeated.")
    ] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List the facts seen on too few nodes.")] = False,
    only_on: Annotated[str | None, typer.Option(metavar="NODE", help="List the facts seen on this node alone.")] = None,
    silent_after: Annotated[
        str, typer.Option(metavar="SPAN", help="Call a node silent if its newest landing is this much older than the newest.")
    ] = "1d",
) -> None:
    """Count the copies of each change, by node; exit code 1 on too few."""
    from cdc_views.operations.replication import expected_of, list_partial
    from cdc_views.operations.replication import replicas as count

    target = asked.table(table)
    expected = expected_of(target, factor=replication_factor, nodes=nodes or (), silent_after=silent_after)
    report = count(target, expected)
    warn_of_quarantine(target)
    if missing or only_on is not None:
        facts = list_partial(target, expected, only_on=only_on, incomplete=missing)
        asked.print_json(_FACT_COLUMNS, _fact_rows(target.schema, facts), WRITTEN)
    elif asked.is_for_people:
        records = list(_records(report))
        print(f"{report.table}: {report.facts} cell facts; {report.factor} copies of each are expected")
        asked.print(_COPIES_COLUMNS, (r for r in records if r["part"] == "copies"))
        appearance = Appearance(micros=frozenset({"oldest_missing", "newest_written"}), null="")
        asked.print(_NODE_COLUMNS, (r for r in records if r["part"] == "node"), appearance)
    else:
        asked.print(_COLUMNS, _records(report))
    if report.incomplete:
        _complain(target, report, is_listed=missing)
        raise typer.Exit(1)


def _records(report: ReplicaReport) -> Iterator[dict[str, object]]:
    from cdc_views.rules.codec.times import timestamp_text

    nothing = dict.fromkeys(_COLUMNS)
    for copies, facts in report.copies.items():
        verdict = "too few" if facts and copies < report.factor else "ok"
        yield {**nothing, "part": "copies", "copies": copies, "facts": facts, "verdict": verdict}
    for one in report.nodes:
        newest = None if one.newest_position is None else ":".join(map(str, one.newest_position))
        landed = None if one.last_landed is None else timestamp_text(one.last_landed // 1000)
        yield {
            **nothing,
            "part": "node",
            "node": one.node,
            "facts": one.seen,
            "missing": one.lacking,
            "oldest_missing": one.oldest_lacking,
            "newest_written": one.newest_written,
            "newest_position": newest,
            "last_landed": landed,
            "verdict": one.status.value,
        }


def _fact_rows(schema: TableSchema, facts: Iterator[PartialFact]) -> Iterator[JsonRow]:
    from cdc_views.operations.explained import part_row

    for fact in facts:
        nodes, missing = (json.dumps(names, ensure_ascii=False) for names in (fact.nodes, fact.lacking))
        yield {**part_row(schema, fact), "nodes": nodes, "missing_on": missing}


def _complain(table: Table, report: ReplicaReport, *, is_listed: bool) -> None:
    few = f"{table.name}: {report.incomplete:,} of {report.facts:,} cell facts were seen on fewer than {report.factor} nodes"
    advice = "" if is_listed else "; --missing lists them"
    if len(report.nodes) < report.factor:
        advice = f"; of only {len(report.nodes)} nodes events have landed or were expected (--nodes)"
    log.error(few + advice)
