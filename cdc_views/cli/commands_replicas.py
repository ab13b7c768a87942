"""`replicas`: on how many nodes each cell fact was seen, and which facts only some nodes have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.messages import warn_of_quarantine
from cdc_views.cli.printing import as_json_rows, print_rows
from cdc_views.cli.shared import Request, TableArgument, shared
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.model.schema import TableSchema
    from cdc_views.operations.replication import ReplicaReport
    from cdc_views.operations.replication.listing import PartialFact
    from cdc_views.table import Table

_COPIES_COLUMNS = ("copies", "facts", "verdict")
_NODE_COLUMNS = ("node", "facts", "missing", "oldest_missing", "newest_written", "newest_position", "last_landed", "verdict")
_COLUMNS = ("part", "copies", *_NODE_COLUMNS)
_FACT_COLUMNS = ("key", "what", "column", "path", "written", "nodes", "missing_on")


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
        str, typer.Option(metavar="SPAN", help="A node is silent if it landed nothing for so long before the newest landing.")
    ] = "1d",
) -> None:
    """Print on how many nodes each cell fact was seen, and each node's status; exit code 1 on too few copies."""
    from cdc_views.operations.replication import expected_of, list_partial
    from cdc_views.operations.replication import replicas as count

    target = asked.table(table)
    expected = expected_of(target, factor=replication_factor, nodes=nodes or (), silent_after=silent_after)
    report = count(target, expected)
    warn_of_quarantine(target)
    if missing or only_on is not None:
        facts = list_partial(target, expected, only_on=only_on, incomplete=missing)
        asked.print_json(_FACT_COLUMNS, _fact_rows(target.schema, facts))
    elif asked.format == "table":
        _print_tables(report)
    else:
        asked.print(_COLUMNS, _records(report))
    if report.incomplete:
        _complain(target, report, is_listed=missing)
        raise typer.Exit(1)


def _print_tables(report: ReplicaReport) -> None:
    records = list(_records(report))
    print(f"{report.table}: {report.facts} cell facts; {report.factor} copies of each are expected")
    print_rows(_COPIES_COLUMNS, as_json_rows(r for r in records if r["part"] == "copies"), format="table")
    print_rows(_NODE_COLUMNS, as_json_rows(r for r in records if r["part"] == "node"), format="table")


def _records(report: ReplicaReport) -> Iterator[dict[str, object]]:
    """One record per number of copies, then one per node."""
    nothing = dict.fromkeys(_COLUMNS)
    for copies, facts in report.copies.items():
        verdict = "too few" if facts and copies < report.factor else "ok"
        yield {**nothing, "part": "copies", "copies": copies, "facts": facts, "verdict": verdict}
    for one in report.nodes:
        newest = None if one.newest_position is None else ":".join(map(str, one.newest_position))
        yield {
            "part": "node",
            "copies": None,
            "node": one.node,
            "facts": one.seen,
            "missing": one.lacking,
            "oldest_missing": one.oldest_lacking,
            "newest_written": one.newest_written,
            "newest_position": newest,
            "last_landed": _instant(one.last_landed),
            "verdict": one.status.value,
        }


def _instant(micros: int | None) -> str | None:
    from cdc_views.rules.codec.times import timestamp_text

    return None if micros is None else timestamp_text(micros // 1000)


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
