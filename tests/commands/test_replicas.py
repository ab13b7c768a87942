"""`replicas` and `query --confirmed` as a user runs them: real events of three nodes, and what goes wrong with some."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Answer, CommandLine, table, write_project
from helpers.copies import copies_of
from helpers.tiers import often

from cdc_views.api import Project
from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.schemas import read_schema

pytestmark = pytest.mark.heavy

REAL = {"types3": "hid111.typed", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic", "wide3": "hid211.orders"}
QUICK = "names3"
NODES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
ORDERS = "shop.orders"
FORMAT = "cassandra-mutation"
CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text, tags set<text>);\n"

Lines = dict[str, list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table, `shop.orders`, of which every mutation has three replicas."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL, encoding="utf-8")
    write_project(table(ORDERS, "schema.cql", FORMAT, replication_factor=3))
    return CommandLine(capsys)


class RealCase:
    """A project of a captured table."""

    def __init__(self, run: CommandLine, cases: Path, name: str) -> None:
        self.run, self.table, self.folder = run, REAL[name], cases / name
        (schema,) = self.folder.glob("schema.cql")
        write_project(table(self.table, str(schema), FORMAT, replication_factor=3))
        self.schema = read_schema(schema, table=self.table)

    def lines(self) -> Lines:
        """Return what each node's commit log held."""
        files = {node: self.folder / f"node{n}.jsonl" for n, node in enumerate(NODES, 1)}
        return {node: file.read_text("utf-8").splitlines() for node, file in files.items()}

    def land(self, lines: Lines) -> None:
        """Land each node's lines as a file of its own."""
        for node, some in lines.items():
            if some:
                assert self.run.land(self.table, *some, format=FORMAT, file=f"{node}.jsonl").code == 0

    def check(self, lines: Lines, *options: str) -> dict[str, str]:
        """Compare every count with Python's; returns the nodes' verdicts."""
        events = [SourceLine(line) for some in lines.values() for line in some]
        copies = copies_of(self.schema, [fact for one in events for fact in CassandraMutation().decode(one, self.schema)])
        answer = self.run("replicas", self.table, "--format", "jsonl", *options)
        rows = {row["node"]: row for row in answer.rows if row["part"] == "node"}
        assert {r["copies"]: r["facts"] for r in answer.rows if r["part"] == "copies" and r["facts"]} == copies.by_number()
        assert {n: (r["facts"], r["missing"]) for n, r in rows.items()} == {
            n: (copies.seen(n), copies.lacking(n, factor=3, known=rows)) for n in rows
        }
        assert answer.code == (1 if any(number < 3 for number in copies.by_number()) else 0)
        return {node: row["verdict"] for node, row in rows.items()}


OK = dict.fromkeys(NODES, "ok")


@pytest.mark.parametrize("name", often(REAL, "types3", "names3"))
def test_of_real_events_every_node_has_every_fact_until_a_file_is_cut(run: CommandLine, cassandra_cases: Path, name: str) -> None:
    case = RealCase(run, cassandra_cases, name)
    lines = case.lines()
    cut = len(lines[NODES[0]]) * 2 // 3
    case.land({**lines, NODES[2]: lines[NODES[2]][:cut]})
    assert case.check({**lines, NODES[2]: lines[NODES[2]][:cut]}) == {**OK, NODES[2]: "lagging"}
    case.land(lines)
    assert case.check(lines) == OK
    assert case.run("replicas", case.table, "--missing", "--format", "jsonl").rows == []


CUTS = [(node, share) for node in NODES for share in (0, 0.3, 0.9)]


@pytest.mark.parametrize(("node", "share"), CUTS)
def test_a_node_whose_file_is_cut_or_gone_is_named(run: CommandLine, cassandra_cases: Path, node: str, share: float) -> None:
    case = RealCase(run, cassandra_cases, QUICK)
    whole = case.lines()
    lines = {**whole, node: whole[node][: int(len(whole[node]) * share)]}
    case.land(lines)
    found = case.check(lines, "--nodes", node)
    assert found == {**OK, node: "lagging" if share else "silent"}


def test_a_node_that_lacks_the_middle_is_missing_facts(run: CommandLine, cassandra_cases: Path) -> None:
    case = RealCase(run, cassandra_cases, QUICK)
    whole = case.lines()
    third = len(whole[NODES[1]]) // 3
    lines = {**whole, NODES[1]: whole[NODES[1]][:third] + whole[NODES[1]][2 * third :]}
    case.land(lines)
    assert case.check(lines) == {**OK, NODES[1]: "missing"}


def test_the_confirmed_view_of_real_events(run: CommandLine, cassandra_cases: Path) -> None:
    case = RealCase(run, cassandra_cases, QUICK)
    lines, at = case.lines(), ("--as-of", "1795254672")
    case.land({NODES[0]: lines[NODES[0]]})
    assert run.query(case.table, "--confirmed", *at) == []
    half = len(lines[NODES[1]]) // 2
    case.land({NODES[1]: lines[NODES[1]][:half]})
    some = run.query(case.table, "--confirmed", *at)
    case.land({NODES[2]: lines[NODES[2]]})
    every = run.query(case.table, "--confirmed", *at)
    assert every == run.query(case.table, *at)
    assert [] != some != every


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_the_confirmed_view_on_spark(run: CommandLine, cassandra_cases: Path) -> None:
    case = RealCase(run, cassandra_cases, QUICK)
    lines = case.lines()
    case.land({NODES[0]: lines[NODES[0]], NODES[1]: lines[NODES[1]][: len(lines[NODES[1]]) // 2]})
    assert run("materialize").code == 0
    asked = {"confirmed": True, "as_of": 1795254672}
    target = Project.load().table(case.table)
    found = list(target.query(engine="spark", **asked).json_rows())
    assert found
    assert found == list(target.query(engine="duckdb", **asked).json_rows())


# --- by hand -------------------------------------------------------------------------------------------------------------


def cell(column: str, value: object, *, at: int, **more: object) -> dict[str, Any]:
    return {"column": column, "written": at, **({} if value is None else {"value": value}), **more}


def event(node: str, *cells: dict[str, Any], key: int = 1, position: int = 1, **row: Any) -> str:
    body = {"kind": "row", "clustering": {}, "cells": list(cells), **row}
    place = {"node": node, "segment": 7, "position": position, "keyspace": "shop", "table": "orders", "partition": {"id": key}}
    return json.dumps({"format": f"{FORMAT}/1", **place, "rows": [body]})


def land(run: CommandLine, *lines: str, file: str = "events.jsonl") -> None:
    assert run.land(ORDERS, *lines, format=FORMAT, file=file).code == 0


def on(nodes: Iterable[str], *cells: dict[str, Any], **more: Any) -> list[str]:
    return [event(node, *cells, **more) for node in nodes]


def node_rows(answer: Answer) -> dict[str, dict[str, Any]]:
    return {row["node"]: row for row in answer.rows if row["part"] == "node"}


OPEN, NOTE = cell("state", "open", at=5), cell("note", "n", at=6)


def test_a_mutation_that_a_repair_merged_holds_the_same_facts(run: CommandLine) -> None:
    land(run, *on("ab", OPEN), *on("ab", NOTE, position=2), event("c", NOTE, OPEN, position=9))
    answer = run("replicas", ORDERS, "--format", "jsonl")
    assert answer.code == 0
    assert [(row["copies"], row["facts"]) for row in answer.rows if row["part"] == "copies"] == [(1, 0), (2, 0), (3, 2)]


def test_an_expired_cell_that_one_node_has_as_a_tombstone_is_another_fact(run: CommandLine) -> None:
    expired, gone = {"ttl": 60, "expires_at": 65}, {"deleted_at": 65}
    land(run, *on("ab", cell("state", "open", at=5, **expired)), event("c", cell("state", None, at=5, **gone)))
    answer = run("replicas", ORDERS, "--format", "jsonl")
    copies = {row["copies"]: row["facts"] for row in answer.rows if row["part"] == "copies" and row["facts"]}
    assert (answer.code, copies) == (1, {1: 1, 2: 1})


def test_landing_again_and_repeating_change_nothing(run: CommandLine) -> None:
    lines = [*on("ab", OPEN), *on("abc", NOTE, position=2)]
    land(run, *lines)
    before = run("replicas", ORDERS, "--format", "csv")
    land(run, *lines)
    assert run("replicas", ORDERS, "--format", "csv") == before
    assert before.code == 1
    land(run, *on("aab", OPEN, position=1), file="again.jsonl")
    copies = [line for line in before.out.splitlines() if line.startswith("copies")]
    again = run("replicas", ORDERS, "--format", "csv").out.splitlines()
    assert [line for line in again if line.startswith("copies")] == copies


def test_every_kind_of_fact_is_listed_where_it_is_missing(run: CommandLine) -> None:
    deletion = {"written": 3, "deleted_at": 9}
    tags = [{"column": "tags", "deletion": {"written": 4, "deleted_at": 9}}, {**cell("tags", "", at=5), "path": "x"}]
    gone = {"column": "state", "written": 6, "deleted_at": 9}
    whole = event("a", *tags, gone, NOTE, liveness={"written": 5}, deletion=deletion)
    every = json.loads(whole)
    every["partition_deletion"] = {"written": 2, "deleted_at": 9}
    land(run, json.dumps(every), event("b", NOTE), event("c", NOTE))
    answer = run("replicas", ORDERS, "--only-on", "a", "--format", "jsonl")
    assert answer.code == 1
    assert [(r["what"], r["column"], r["path"], r["written"]) for r in answer.rows] == [
        ("row marker", None, None, 5),
        ("row deletion", None, None, 3),
        ("partition deletion", None, None, 2),
        ("tombstone", "state", None, 6),
        ("column deletion", "tags", None, 4),
        ("cell", "tags", "x", 5),
    ]
    assert {(str(r["key"]), *r["nodes"], *r["missing_on"]) for r in answer.rows} == {("{'id': 1}", "a", "b", "c")}
    assert run("replicas", ORDERS, "--missing", "--format", "jsonl").rows == answer.rows
    assert run("replicas", ORDERS, "--only-on", "b", "--format", "jsonl").rows == []


def test_a_node_that_landed_nothing_lately_is_silent(run: CommandLine) -> None:
    target = Project.load().table(ORDERS)
    start = datetime(2026, 11, 21, tzinfo=timezone.utc)

    def landed(node: str, *lines: str, after: timedelta) -> None:
        file = Path(f"{node}{after.days}.jsonl")
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        target.land(file, now=start + after)

    for node in "abc":
        landed(node, event(node, OPEN), after=timedelta())
    landed("a", event("a", OPEN, position=9), after=timedelta(days=1, hours=1))
    assert {one.status.value for one in target.replicas().nodes} == {"ok"}, "quiet nodes that lack nothing"
    for node in "ab":
        landed(node, event(node, NOTE, position=2), after=timedelta(days=2))
    status = {one.node: one.status.value for one in target.replicas().nodes}
    assert status == {"a": "ok", "b": "ok", "c": "silent"}
    for span, told in (("2d", "silent"), ("3d", "lagging")):
        assert {one.node: one.status.value for one in target.replicas(silent_after=span).nodes}["c"] == told
    landed("c", event("c", cell("note", "other", at=1), key=2, position=3), after=timedelta(days=2, hours=1))
    assert {one.node: one.status.value for one in target.replicas(factor=1).nodes}["c"] == "lagging"


def test_with_more_nodes_than_replicas_a_node_holds_the_partitions_it_has_shown(run: CommandLine) -> None:
    land(run, *on("abc", OPEN), *on("bcd", OPEN, key=2), *on("ab", NOTE, position=2), *on("ab", OPEN, key=3, position=3))
    answer = run("replicas", ORDERS, "--format", "jsonl")
    assert {node: (row["facts"], row["missing"], row["verdict"]) for node, row in node_rows(answer).items()} == {
        "a": (3, 0, "ok"),
        "b": (4, 0, "ok"),
        "c": (2, 1, "lagging"),
        "d": (1, 0, "ok"),
    }
    assert {row["copies"]: row["facts"] for row in answer.rows if row["part"] == "copies" and row["facts"]} == {2: 2, 3: 2}
    assert run("replicas", ORDERS, "--replication-factor", "2").code == 0


@pytest.mark.parametrize(("lost", "verdict"), [(3, "lagging"), (2, "missing")])
def test_a_node_that_lacks_three_in_four_facts_since_the_first_missing_is_lagging(
    run: CommandLine, lost: int, verdict: str
) -> None:
    facts = [(node, number) for number in range(lost + 2) for node in "abc" if node != "c" or not 0 < number <= lost]
    land(run, *(event(node, cell("note", "n", at=number), key=number, position=number) for node, number in facts))
    found = node_rows(run("replicas", ORDERS, "--format", "jsonl"))["c"]
    assert (found["facts"], found["missing"], found["verdict"]) == (2, lost, verdict)


@pytest.mark.parametrize(("lost", "verdict"), [((9,), "lagging"), ((0,), "missing"), ((0, 9), "missing")])
def test_a_node_is_lagging_if_what_it_lacks_is_newer_than_all_it_has_shown(
    run: CommandLine, lost: tuple[int, ...], verdict: str
) -> None:
    """The log of the others has the facts that it lacks before four that it has."""
    shared = [line for number in (2, 3, 4, 5) for line in on("abc", cell("note", "n", at=number), key=number, position=number)]
    land(run, *(line for at in lost for line in on("ab", cell("note", "n", at=at))), *shared)
    found = node_rows(run("replicas", ORDERS, "--format", "jsonl"))["c"]
    assert (found["facts"], found["missing"], found["verdict"]) == (4, len(lost), verdict)


def test_what_a_node_has_in_quarantine_is_missing(run: CommandLine) -> None:
    land(run, *on("abc", OPEN))
    bad = event("c", cell("note", ["n"], at=6), position=2)
    assert run.land(ORDERS, *on("ab", NOTE, position=2), bad, format=FORMAT, file="2.jsonl").code == 1
    found = node_rows(run("replicas", ORDERS, "--format", "jsonl"))["c"]
    assert (found["facts"], found["missing"], found["verdict"]) == (1, 1, "lagging")


HOSTILE = ["a\nb", "x'); DROP TABLE raw_events; --", 'a"b', "\\", "é", "", "%s", "$1", "\U0001f600 "]


@pytest.mark.parametrize("node", HOSTILE)
def test_nodes_of_any_name(run: CommandLine, node: str) -> None:
    land(run, *on((node, "z"), OPEN), *on((node,), NOTE, key=2))
    assert set(node_rows(run("replicas", ORDERS, "--format", "jsonl"))) == {node, "z"}
    answer = run("replicas", ORDERS, "--only-on", node, "--format", "jsonl")
    assert [(row["column"], row["nodes"]) for row in answer.rows] == [("note", [node])]


def test_as_a_table_it_says_what_to_do(run: CommandLine) -> None:
    land(run, *on("ab", OPEN))
    answer = run("replicas", ORDERS)
    assert answer.code == 1
    assert "shop.orders: 1 cell facts; 3 copies of each are expected" in answer.out
    assert "too few" in answer.out
    assert "of only 2 nodes events have landed" in answer.err
    land(run, *on("c", OPEN), file="c.jsonl")
    assert run("replicas", ORDERS).err == ""


def test_confirmed_counts_cells_not_rows(run: CommandLine) -> None:
    land(run, *on("ab", OPEN), event("a", NOTE, position=2), event("c", cell("state", "late", at=9), key=1, position=3))
    assert run.query(ORDERS, "--columns", "state", "--columns", "note") == [{"state": "late", "note": "n"}]
    assert run("materialize").code == 0
    assert run.query(ORDERS, "--confirmed") == [{"id": 1, "state": "open", "note": None, "tags": None}]
    now = datetime.now(timezone.utc)
    Path("b.jsonl").write_text(event("b", cell("state", "late", at=9), position=4) + "\n", encoding="utf-8")
    Project.load().table(ORDERS).land("b.jsonl", now=now + timedelta(days=1))
    assert run.query(ORDERS, "--confirmed", "--columns", "state") == [{"state": "late"}]
    earlier = ("--landed-as-of", str(int(now.timestamp()) + 3600))
    assert run.query(ORDERS, "--confirmed", *earlier, "--columns", "state") == [{"state": "open"}]
    assert run.query(ORDERS, "--confirmed", "--written-as-of", "0") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replicas", ORDERS, "--replication-factor", "0"], "a number of replicas, 1 or more"),
        (["replicas", ORDERS, "--silent-after", "soon"], "a whole number and a unit was expected"),
        (["replicas", ORDERS, "--only-on", "nod1"], "did you mean 'node1'?"),
        (["replicas", "shop.order"], "did you mean 'shop.orders'?"),
        (["replicas", ORDERS, "--format", "jsonk"], "did you mean 'json'?"),
        (["replicas", ORDERS, "--select", "shop.other"], "is not among the tables of --select"),
    ],
)
def test_a_slip_exits_2(run: CommandLine, arguments: list[str], expected: str) -> None:
    land(run, *on(("node1",), OPEN))
    answer = run(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert expected in answer.err


@pytest.mark.parametrize("other", ["debezium-cassandra", "debezium", "key-value"])
def test_what_cannot_be_counted_is_refused(run: CommandLine, other: str) -> None:
    answer = run("replicas", ORDERS)
    assert (answer.code, answer.out) == (2, "")
    assert "nothing has landed for shop.orders yet" in answer.err
    write_project(table(ORDERS, "schema.cql", FORMAT))
    for command in ("replicas", "query"):
        answer = run(command, ORDERS, *(["--confirmed"] if command == "query" else []))
        assert answer.code == 2
        assert "set `replication_factor`" in answer.err
    write_project(table(ORDERS, "schema.cql", other, replication_factor=3))
    answer = run("replicas", ORDERS)
    assert answer.code == 2
    assert f"events of {other} do not say which replica they come from" in answer.err
