"""`tail`: every fact of a raw table, once, as it lands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_project import event, make_project, write_lines

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.operations.tailing import BEFORE_ALL, current_version, landed_after

Captured = pytest.CaptureFixture[str]


def test_each_commit_is_told_once_and_in_order(tmp_path: Path) -> None:
    table = Project.load(make_project(tmp_path)).table("shop.orders")
    assert (current_version(table), list(landed_after(table, BEFORE_ALL).lines)) == (BEFORE_ALL, [])
    version, told = BEFORE_ALL, []
    for number in range(1, 6):
        table.land(write_lines(tmp_path / f"{number}.jsonl", event(number), event(number + 100)))
        landed = landed_after(table, version)
        told.append([json.loads(line)["key"]["id"] for line in landed.lines])
        version = landed.version
        assert list(landed_after(table, version).lines) == []
    assert told == [[number, number + 100] for number in range(1, 6)]
    everything = [json.loads(line)["key"]["id"] for line in landed_after(table, BEFORE_ALL).lines]
    assert everything == [number for batch in told for number in batch]


def test_the_command_prints_what_lands_from_now_on_once(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    table = Project.load(project).table("shop.orders")

    def land(number: int) -> None:
        table.land(write_lines(tmp_path / f"{number}.jsonl", event(number)))

    numbers = iter((2, 3))

    def sleep(seconds: float) -> None:
        if (number := next(numbers, 0)) == 0:
            raise KeyboardInterrupt
        land(number)

    land(1)
    monkeypatch.setattr("time.sleep", sleep)
    assert main(["tail", "shop.orders", "--project", str(project)]) == 0
    assert [json.loads(line)["key"]["id"] for line in capsys.readouterr().out.splitlines()] == [2, 3]


def test_a_fact_says_all_that_its_event_said(tmp_path: Path, cassandra_cases: Path, capsys: Captured) -> None:
    """Of the widest captured table, every kind of fact: the cells of the events are those of the lines."""
    case = cassandra_cases / "wide3"
    project = tmp_path / "cdc_views.yml"
    assert main(["init", "--from", str(case / "schema.cql"), "--name", "t", "--project", str(project)]) == 0
    name = Project.load(project).tables[0].name
    assert main(["land", "cassandra-mutation", str(case / "node1.jsonl"), "--table", name, "--project", str(project)]) == 0
    capsys.readouterr()
    assert main(["tail", name, "--from-start", "--once", "--project", str(project)]) == 0
    lines = [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]
    events = [json.loads(line) for line in (case / "node1.jsonl").read_text().splitlines()]
    assert Counter(line["kind"] for line in lines).keys() == {"row", "static", "range", "partition"}
    wanted = Counter(sent(events))
    assert Counter(shown(lines)) == wanted
    missing = [line for line in lines if line["kind"] != "range"]
    assert Counter(shown(missing[1:])) != wanted  # one that is missing is noticed


def sent(events: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Write times of what events say: cells with and without a path, markers, deletions."""
    for each in events:
        if "partition_deletion" in each:
            yield ("deleted", each["partition_deletion"]["written"])
        for row in each.get("rows", []):
            yield from (("deleted", row[name]["written"]) for name in ("deletion",) if name in row)
            yield from (("live", row[name]["written"]) for name in ("liveness",) if name in row)
            for cell in row.get("cells", []):
                if "deletion" in cell:
                    yield (cell["column"], "deletion", cell["deletion"]["written"])
                else:
                    yield (cell["column"], cell["written"], cell.get("expires_at"), cell.get("deleted_at"))


def shown(lines: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """The same of what was printed."""
    for line in lines:
        yield from ((name, line[name]["written"]) for name in ("deleted", "live") if name in line)
        for column, cell in line.get("cells", {}).items():
            if "deletion" in cell:
                yield (column, "deletion", cell["deletion"]["written"])
            for each in cell.get("cells", [cell]):
                yield (column, each["written"], each.get("expires_at"), each.get("deleted_at"))


def test_an_interrupt_ends_it_quietly(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path)
    Project.load(project).table("shop.orders").land(write_lines(tmp_path / "a.jsonl", event(1)))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    assert main(["tail", "shop.orders", "--from-start", "--project", str(project)]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["cells"]["state"]["value"], err) == ("open", "")


def test_a_table_that_the_project_lacks_exits_2(tmp_path: Path, capsys: Captured) -> None:
    assert main(["tail", "shop.order", "--project", str(make_project(tmp_path))]) == 2
    assert "did you mean 'shop.orders'?" in capsys.readouterr().err
