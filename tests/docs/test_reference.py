"""docs/reference is what the code gives, and what it says beyond the code holds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "generate"))

import of_layout  # noqa: E402
import of_rules  # noqa: E402
import pages  # noqa: E402

from cdc_views.api import Project  # noqa: E402
from cdc_views.cli.app import app  # noqa: E402
from cdc_views.errors import MalformedEventError  # noqa: E402
from cdc_views.formats.base import SourceLine  # noqa: E402
from cdc_views.formats.cassandra_mutation import CassandraMutation  # noqa: E402
from cdc_views.schemas.cql.reader import read_cql  # noqa: E402


def test_the_committed_pages_are_what_the_code_gives() -> None:
    assert pages.stale() == [], "run `make reference`"


def test_a_page_that_is_not_is_noticed(tmp_path: Path) -> None:
    assert pages.write(tmp_path) == sorted(pages.PAGES)
    assert pages.stale(tmp_path) == []
    changed = tmp_path / "commands.md"
    changed.write_text(changed.read_text().replace("--as-of", "--asof", 1))
    (tmp_path / "errors.md").unlink()
    (tmp_path / "gone.md").write_text("a page that no code gives any more")
    assert pages.stale(tmp_path) == ["commands.md", "errors.md", "gone.md"]


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each command by its words, those of groups too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{path}{name} ")
        elif not command.hidden:
            yield path + name, command


def test_each_option_of_each_command_stands_in_its_section() -> None:
    told = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in told.split("\n## ")[1:]}
    found = dict(commands(typer.main.get_command(app)))
    assert found.keys() == sections.keys() - {"Without a command"}
    parameters = [(name, one) for name, command in found.items() for one in command.params if not getattr(one, "hidden", False)]
    flags = [(name, flag) for name, one in parameters for flag in one.opts if flag.startswith("-")]
    assert len(flags) > 200
    assert [(name, flag) for name, flag in flags if not re.search(rf"(?m)^\| `[^`]*{flag}[ `]", sections[name])] == []


@pytest.fixture(scope="module")
def captured(cassandra_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of the captured tables that have a rule's case, each landed from one replica."""
    folder = tmp_path_factory.mktemp("rules")
    cases = {case.case: case.table for case in of_rules.REAL_CASES}
    tables = [
        {
            "name": name,
            "schema": str(next(cassandra_cases.glob(f"**/{case}/schema.cql"))),
            "raw": {"format": "cassandra-mutation"},
        }
        for case, name in cases.items()
    ]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "rules", "engine": "duckdb", "tables": tables}))
    project = Project.load(folder / "cdc_views.yml")
    for case, name in cases.items():
        project.table(name).land(next(cassandra_cases.glob(f"**/{case}/node1.jsonl")))
    return project


@pytest.mark.heavy
@pytest.mark.parametrize("case", of_rules.REAL_CASES, ids=lambda case: case.rule)
def test_a_rule_decides_in_its_real_case(captured: Project, cassandra_cases: Path, case: of_rules.RealCase) -> None:
    answer = json.loads(next(cassandra_cases.glob(f"**/{case.case}/expected_{case.which}.json")).read_text())
    assert answer["as_of"] == of_rules.INSTANTS[case.case, case.which]
    table = captured.table(case.table)
    found = table.explain(case.key, column=case.column, as_of=answer["as_of"])
    if case.rule == "W2":
        assert found.is_row
        assert all(found.value(column.name) is None for column in table.schema.regulars)
    elif case.rule == "W4":
        shown = {place.path: place.shown.written for place in found.places if place.shown is not None}
        assert len(set(shown.values())) > 1, "elements of one column, last written at different times"
    elif case.rule == "W3":
        rows = [json.loads(row) for row in answer["rows"]]
        alone = [row for row in rows if row.items() >= json.loads(case.key).items()]
        assert found.is_row
        assert [row["c1"] for row in alone] == [None]
    else:
        assert case.rule in {candidate.rule for place in found.places for candidate in place.candidates}


CQL = "CREATE TABLE shop.orders (id int, line int, state text, tags set<text>, PRIMARY KEY (id, line));"
MARKER = {"written": 1, "ttl": 1, "expires_at": 2}
EVENT: dict[str, Any] = {
    "format": "cassandra-mutation/1",
    "node": "n1",
    "segment": 1,
    "position": 1,
    "keyspace": "shop",
    "table": "orders",
    "partition": {"id": 1},
    "partition_deletion": {"written": 1, "deleted_at": 1},
    "rows": [],
}
PARTS: dict[str, dict[str, Any]] = {
    "the event": EVENT,
    "a row": {
        "kind": "row",
        "clustering": {"line": 1},
        "liveness": MARKER,
        "deletion": {"written": 1, "deleted_at": 1},
        "cells": [],
    },
    "a range deletion": {
        "kind": "range_deletion",
        "start": {"clustering": {"line": 1}, "inclusive": True},
        "end": {"clustering": {}, "inclusive": True},
        "deletion": {"written": 1, "deleted_at": 1},
    },
    "a cell": {"column": "state", "written": 1, "value": "open", "bytes": "6f70656e"},
}


def decodes(name: str, part: dict[str, Any]) -> bool:
    """Whether an event with this part is one."""
    row = part if name != "a cell" else {"kind": "row", "clustering": {"line": 1}, "cells": [part]}
    event = part if name == "the event" else {**EVENT, "rows": [row]}
    (schema,) = read_cql(CQL).tables.values()
    try:
        CassandraMutation().decode(SourceLine(json.dumps(event), 1), schema)
    except MalformedEventError:
        return False
    return True


@pytest.mark.parametrize("name", PARTS)
def test_members_that_are_required_are_and_others_are_not(name: str) -> None:
    part = PARTS[name]
    assert decodes(name, part)
    needed = {member for member in part if not decodes(name, {key: value for key, value in part.items() if key != member})}
    assert needed == set(of_layout.REQUIRED[name])
    assert not decodes(name, {**part, "unknown": 1})


def test_what_is_required_only_sometimes() -> None:
    assert decodes("a row", {"kind": "static"})
    (schema,) = read_cql("CREATE TABLE shop.orders (id int PRIMARY KEY);").tables.values()
    event = json.dumps({**EVENT, "rows": [{"kind": "row"}]})
    assert CassandraMutation().decode(SourceLine(event, 1), schema)
    assert decodes("a cell", {"column": "tags", "deletion": {"written": 1, "deleted_at": 1}})
