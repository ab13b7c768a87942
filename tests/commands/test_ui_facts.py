"""What pages show equals what the command line prints, on the real cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import html5lib
import pytest
from helpers.command_line import CommandLine, table, write_project

from cdc_views.api import Project
from cdc_views.operations.run_records import RunRecord, keep_run
from cdc_views.pages.checking import figures_of
from cdc_views.pages.home import Level, TableFinding, TableLine, home_page
from cdc_views.pages.server.site import Asked, Site
from cdc_views.pages.texts import shown_value
from cdc_views.project.paths import slug_of
from cdc_views.quality.checks import Check, Report

CASES = {"wide3": "hid211.orders", "names3": "hid311.OrderItems", "types3": "hid111.typed"}
NOW = 1_795_320_000
RECORD = {"command": "materialize", "at": "2020-01-01T00:00:00+00:00", "seconds": 1.0, "left_out": 0}
TEST = {"name": "v is small", "holds": "v < 4"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cassandra_cases: Path) -> Iterator[Path]:
    """A project of three real tables, with two events in quarantine, a state, and a failed run of tests."""
    folder = tmp_path_factory.mktemp("ui")
    tables = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for case, name in CASES.items():
            schema = folder / f"{case}.cql"
            schema.write_bytes((cassandra_cases / case / "schema.cql").read_bytes())
            tests = {"tests": [TEST]} if case == "wide3" else {}
            tables.append(table(name, schema.name, "cassandra-mutation", replication_factor=3, **tests))
        write_project(*tables)
        project = Project.load()
        for case, name in CASES.items():
            project.table(name).land(*sorted((cassandra_cases / case).glob("node*.jsonl"))[: 2 if case == "names3" else 3])
        Path("bad.jsonl").write_text('{"bad": 1}\n{"format": "cassandra-mutation/1", "rows": "<b>\u202e"}\n', encoding="utf-8")
        project.table("orders").land("bad.jsonl")
        project.table("orders").materialize()
        yield folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(folder)
    return CommandLine(capsys)


@pytest.fixture(scope="module")
def site(folder: Path) -> Site:
    return Site(lambda: Project.load(folder / "cdc_views.yml"), folder / "cdc_views.yml")


def page(site: Site, name: str, page: str, **query: str) -> ET.Element:
    """A page of a table, parsed; what is not HTML fails."""
    found = site.table(slug_of(name))
    text = site.page(found, page, Asked(query, NOW))
    return html5lib.parse(text, namespaceHTMLElements=False)


def printed(run: CommandLine, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    answer = run(*arguments, "--format", "json")
    assert answer.code == code, answer.err
    return json.loads(answer.out, parse_float=str)


def cells(tree: ET.Element, kind: str = "list") -> list[list[str]]:
    """The rows of the first table of a kind."""
    (found,) = [one for one in tree.iter("table") if kind in one.get("class", "").split()][:1]
    return [["".join(cell.itertext()).strip() for cell in row if cell.tag in ("td", "th")] for row in found.iter("tr")][1:]


@pytest.mark.parametrize("name", CASES.values())
def test_rows_are_those_of_query(run: CommandLine, site: Site, name: str) -> None:
    answer = run("query", name, "--as-of", str(NOW), "--limit", "50", "--format", "jsonl")
    schema = site.table(slug_of(name)).schema
    order = [*schema.row_key, *(column for column in schema.columns if not column.is_key)]
    wanted = [texts_of(line, [column.name for column in order]) for line in answer.out.splitlines()]
    assert cells(page(site, name, "rows"), "rows") == wanted
    assert wanted


def texts_of(line: str, names: list[str]) -> list[str]:
    """A row of jsonl as the page shows its values."""
    row, decoder = {}, json.JSONDecoder()
    at = line.index("{") + 1
    while line[at] != "}":
        name, at = decoder.raw_decode(line, at)
        _, end = decoder.raw_decode(line, at + 2)
        row[name], at = line[at + 2 : end], end + 2 if line[end] == "," else end
    return [shown_value(row[name]).text.strip() for name in names]


def test_rows_are_filtered_sorted_and_paged_by_the_engine(run: CommandLine, site: Site) -> None:
    asked = ["--where", "v IS NOT NULL", "--order-by=-v", "--as-of", str(NOW), "--columns", "v"]
    wanted = [str(row["v"]) for row in printed(run, "query", "orders", *asked, "--offset", "3")]
    found = cells(page(site, "hid211.orders", "rows", where="v IS NOT NULL", order="-v", offset="3"), "rows")
    place = 4 + [c.name for c in site.table(slug_of("hid211.orders")).schema.columns if not c.is_key].index("v")
    assert [row[place] for row in found] == wanted
    assert len(wanted) > 3


def test_a_cell_has_the_candidates_of_explain(run: CommandLine, site: Site) -> None:
    key = '{"tenant": "t1", "day": "2026-01-01", "seq": 0, "kind": "y"}'
    wanted = printed(run, "explain", "orders", "--key", key, "--column", "v", "--as-of", str(NOW))
    tree = page(site, "hid211.orders", "cell", key=key, column="v")
    found = cells(tree, "candidates")
    assert [row[0] for row in found] == [one["outcome"] or one["what"] for one in wanted]
    assert [row[4].split() for row in found] == [[part for o in one["origins"] for part in o.split()] for one in wanted]
    assert [row[3].split()[0] for row in found if row[0] != "shown"] == [
        one["rule"] for one in wanted if one["outcome"] != "shown"
    ]
    heading = "".join(next(tree.iter("h1")).itertext())
    (shown,) = [one["value"] for one in wanted if one["outcome"] == "shown"]
    assert heading == f"v is {shown}"
    assert "The newest write wins, told by 3 nodes" in "".join(tree.itertext())


def test_a_rows_page_of_reasons_has_the_values_of_query(run: CommandLine, site: Site) -> None:
    (row,) = printed(
        run,
        "query",
        "orders",
        "--where",
        "seq = 0 AND kind = 'y' AND day = '2026-01-01'",
        "--as-of",
        str(NOW),
        "--columns",
        "v,w,big",
    )
    key = '{"tenant": "t1", "day": "2026-01-01", "seq": 0, "kind": "y"}'
    found = {cells_[0]: cells_[1] for cells_ in cells(page(site, "hid211.orders", "row", key=key))}
    assert {name: found[name] for name in row} == {name: "null" if value is None else str(value) for name, value in row.items()}


def test_quarantine_is_that_of_the_command(run: CommandLine, site: Site) -> None:
    wanted = printed(run, "quarantine", "show", "orders")
    tree = page(site, "hid211.orders", "quarantine")
    events = list(tree.iter("article"))
    assert [next(one.iter("pre"))[0].text for one in events] == [
        event["content"].replace("\u202e", "\\u202e") for event in wanted
    ]
    assert [next(one.iter("b")).text for one in events] == [event["reason"] for event in wanted]
    assert len(wanted) == 2


def test_columns_have_the_verdicts_of_fidelity(run: CommandLine, site: Site) -> None:
    wanted = [one for one in printed(run, "fidelity", "--select", "OrderItems") if one["column"] != "*"]
    found = cells(page(site, "hid311.OrderItems", "columns"))
    assert [(row[0], row[3], row[4]) for row in found] == [(one["column"], one["verdict"], one["reason"]) for one in wanted]


def test_runs_are_those_that_materialize_printed(run: CommandLine, site: Site) -> None:
    (done,) = printed(run, "materialize", "--select", "OrderItems", "--full")
    Path("warehouse/_cdc_views/runs/20200101T000000.000000Z-materialize-0.json").write_text(
        json.dumps(RECORD | {"tables": {"hid311.OrderItems": {"failed": True, "error": "<b>Away"}}}), encoding="utf-8"
    )
    tree = page(site, "hid311.OrderItems", "landings")
    newest, oldest = cells(tree)
    assert newest[2:4] == [f"{done['facts']:,}", str(done["late"])]
    assert oldest == ["2020-01-01 00:00:00", "failed <b>Away"]
    drawn = [one.get("aria-label") for one in tree.iter("{http://www.w3.org/2000/svg}svg")]
    assert drawn[1:] == ["seconds of 1 run of materialize"]


def test_nodes_are_those_of_replicas(run: CommandLine, site: Site) -> None:
    wanted = [one for one in printed(run, "replicas", "OrderItems", code=1) if one["part"] == "node"]
    found = cells(page(site, "hid311.OrderItems", "nodes"))
    told = sorted((row[0], row[1], int(row[2].replace(",", "")), int(row[3].replace(",", ""))) for row in found)
    assert told == sorted((one["node"], one["verdict"], one["facts"], one["missing"]) for one in wanted)


def test_tests_end_as_validate_prints_them_and_leave_their_history(run: CommandLine, site: Site) -> None:
    asked = ["validate", "--no-docs", "--select", "orders", "--as-of", str(NOW), "--sample", "5"]
    wanted = {one["check"]: one["status"] for one in printed(run, *asked, code=1)}
    tree = page(site, "hid211.orders", "tests", run="1")
    found = dict(reversed(row[0].split(" ", 1)) for row in cells(tree))
    as_warning = {"nothing_in_quarantine": "warning"}
    assert found == {name: as_warning.get(name, status) for name, status in wanted.items()}
    assert cells(tree)[0][0] == "failed v is small"
    assert "v < 4" in cells(tree)[0][2]
    assert any(link.get("href", "") == "/t/hid211_orders/rows?where=NOT+%28v+%3C+4%29" for link in tree.iter("a"))
    earlier = "".join(page(site, "hid211.orders", "tests").itertext())
    assert "1 failed" in earlier
    assert "v is small: does not hold for" in earlier.replace("\n", "")


@pytest.mark.parametrize("name", CASES.values())
def test_nulls_are_those_of_the_rows_of_query(run: CommandLine, site: Site, name: str) -> None:
    rows = [json.loads(line) for line in run("query", name, "--as-of", str(NOW), "--format", "jsonl").out.splitlines()]
    counted = page(site, name, "columns", nulls="1")
    assert f"Of {len(rows)} row" in "".join(counted.itertext())
    shown = {row[0]: row[3].split()[:1] for row in cells(counted)}
    others = [column.name for column in site.table(slug_of(name)).schema.columns if not column.is_key]
    assert {one: shown[one] for one in others} == {one: [str(sum(row[one] is None for row in rows))] for one in others}
    assert len(cells(page(site, name, "columns"))[0]) == len(cells(counted)[0]) - 1


def test_the_tests_that_the_last_run_skipped_are_named(site: Site, folder: Path) -> None:
    checks = (Check("made", "holds"), Check("not made", "holds").skipped("why"), Check("nor <this>", "holds").skipped("why"))
    report = Report("hid111.typed", "duckdb", NOW, 1, 0.1, checks)
    record = RunRecord("validate", "2030-01-01T00:00:00+00:00", 0.1, {report.table: figures_of(report)})
    assert keep_run(Project.load(folder / "cdc_views.yml"), record) == ""
    assert "Skipped: not made, nor <this>." in "".join(page(site, report.table, "tests").itertext())


def test_the_first_page_has_what_status_prints_the_worst_first(run: CommandLine, site: Site) -> None:
    wanted = {one["table"]: one for one in printed(run, "status")}
    assert site._survey is not None or site.project
    site._survey.lines(wait=30)  # type: ignore[union-attr]
    found = {row[0]: row for row in cells(html5lib.parse(site.home(Asked({}, NOW)), namespaceHTMLElements=False))}
    assert next(iter(found)) == "hid211.orders"
    for name, one in wanted.items():
        assert found[name][3] == f"{one['raw_facts']:,}"
        assert found[name][4] == ("no state" if one["state"] is None else str(one["unmerged"]))
        assert ("in quarantine" in found[name][1]) == bool(one["quarantined"])


def test_the_first_page_sorts_tables_by_their_level() -> None:
    lines = {level.name: TableLine(level.name, "slug", None, (TableFinding(level, "", "proof"),)) for level in Level}
    found = home_page(dict.fromkeys(sorted(lines), "slug"), lines).lines
    assert [line.name for line in found] == ["BROKEN", "FAILED", "WARNED", "EMPTY", "UNKNOWN", "WELL"]


def test_what_changed_between_two_instants_is_the_difference_of_two_queries(run: CommandLine, site: Site) -> None:
    sides = ("2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z")
    old, new = (
        {
            json.dumps([row[k] for k in ("tenant", "day", "seq", "kind")]): row
            for row in printed(run, "query", "orders", "--written-as-of", side, "--as-of", str(NOW))
        }
        for side in sides
    )
    changed = {key for key in old | new if old.get(key) != new.get(key)}
    tree = page(site, "hid211.orders", "instants", clock="written_as_of", before=sides[0], after=sides[1])
    heads = ["".join(head.itertext()) for head in tree.iter("h2")]
    assert heads == [f"{len(changed)} of {len(old | new)} rows differ"]
    assert changed
    links = [link.get("href", "") for link in tree.iter("a") if "/row?key=" in link.get("href", "")]
    keys = [json.loads(parse_qs(urlsplit(link).query)["key"][0]) for link in links]
    assert {json.dumps([key.get(k) for k in ("tenant", "day", "seq", "kind")]) for key in keys} == changed
    of_big = [tuple(str(side[key]["big"]) if key in side else "None" for side in (old, new)) for key in changed]
    wanted = [(a, b) for a, b in of_big if a != b]
    shown = [tuple(row[-2:]) for row in cells(tree) if row[-3] == "big"]
    assert sorted(shown) == sorted((a.replace("None", "null"), b.replace("None", "null")) for a, b in wanted)
    assert shown


def test_a_row_of_statics_alone_has_the_key_of_its_partition(site: Site) -> None:
    """Rule W3: a partition without rows shows its statics, and its key has no clustering columns."""
    links = [
        link.get("href", "") for link in page(site, "hid211.orders", "rows").iter("a") if "/row?key=" in link.get("href", "")
    ]
    assert links
    for link in links:
        assert ("seq" in link) == ("kind" in link)
