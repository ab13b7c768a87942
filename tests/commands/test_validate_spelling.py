"""Rule K1: what a table's checks say where state and raw spell one key differently, since a deletion took a fact's spelling."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import table, write_project
from helpers.corrupting import Rows, silently
from helpers.state_sizes import set_sizes

from cdc_views import Project
from cdc_views.quality import Status
from cdc_views.table import Table

pytestmark = pytest.mark.heavy

CQL = "CREATE TABLE shop.sums (id int, amount decimal, note text, tags set<decimal>, PRIMARY KEY (id, amount));\n"
NOW = 1_800_000_000


def line(position: int, *, tenant: int = 1, **what: Any) -> str:
    """One mutation; its decimals are numbers, written as they are."""
    head = {"format": "cassandra-mutation/1", "node": "n1", "segment": 1, "position": position}
    text = json.dumps(head | {"keyspace": "shop", "table": "sums", "partition": {"id": tenant}, "rows": []} | what)
    return re.sub(r'"(\d[\d.]*)"', r"\1", text)


def put(amount: str, tag: str, *, written: int, note: str, tenant: int = 1) -> str:
    cells = [
        {"column": "note", "written": written, "value": note},
        {"column": "tags", "written": written, "path": tag, "value": None},
    ]
    row = {"kind": "row", "clustering": {"amount": amount}, "liveness": {"written": written}, "cells": cells}
    return line(written, tenant=tenant, rows=[row])


OLD, NEW = put("1.0", "2.0", written=5, note="old"), put("1.00", "2.00", written=10, note="new")
WIPE = line(7, partition_deletion={"written": 7, "deleted_at": NOW - 100})
OTHER = put("7.5", "8", written=9, note="other", tenant=2)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A row whose older fact, which a deletion covers, is the only one that spells its key and element 1.0."""
    (tmp_path / "schema.cql").write_text(CQL, "utf-8")
    entry = table("shop.sums", "schema.cql", "cassandra-mutation", materialize={"serving": True})
    write_project(entry, name=str(tmp_path / "cdc_views.yml"))
    sums = Project.load(tmp_path / "cdc_views.yml").table("shop.sums")
    set_sizes(monkeypatch, rebase_share=0)
    for number, event in enumerate((OLD, WIPE, NEW, OTHER)):
        lines = tmp_path / f"{number}.jsonl"
        lines.write_text(event + "\n", "utf-8")
        assert not sums.land(lines).quarantined
        sums.materialize(now=NOW)
    return sums


def shown(table: Table, **options: Any) -> set[tuple[str, str]]:
    return {(str(row["amount"]), str(row["tags"])) for row in table.query(as_of=NOW, **options).rows()}


@pytest.mark.slow
def test_other_spellings_of_equal_keys_are_no_difference(kept: Table) -> None:
    raw, state = shown(kept, raw_only=True), shown(kept)
    assert (raw - state, state - raw) == ({("1.0", "(Decimal('2.0'),)")}, {("1.00", "(Decimal('2.00'),)")})
    assert silently(str(kept.serving_location), spelled_as_raw) == 1
    report = kept.validate(as_of=NOW, seed=1)
    assert report.failed() == ()
    assert {"sample_equals_oracle", "serving_shows_the_state"} <= {c.name for c in report.checks if c.status is Status.PASSED}
    assert kept.rebuild(dry_run=True).comparison.is_equal
    assert kept.drop_raw(older_than="0h").rows


def spelled_as_raw(rows: Rows) -> Rows | None:
    found = [row["amount"] == "1.00" for row in rows]
    return (
        [row | {"amount": "1.0", "tags": ["2.0"]} if is_it else row for row, is_it in zip(rows, found, strict=True)]
        if any(found)
        else None
    )


def having(note: str) -> Any:
    def change(rows: Rows) -> Rows | None:
        found = [row for row in rows if note in str(row.get("note"))]
        return None if not found else [row | {"note": _with(row["note"], note)} if row in found else row for row in rows]

    return change


def _with(cell: Any, note: str) -> Any:
    return cell | {"value": f"not {note}"} if isinstance(cell, dict) else f"not {note}"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["state", "serving"])
def test_other_values_beside_other_spellings_still_differ(kept: Table, place: str) -> None:
    where = kept.state_location if place == "state" else kept.serving_location
    assert silently(str(where), having("new")) == 1
    found = {check.name for check in kept.validate(as_of=NOW, seed=1).failed()}
    assert ({"sample_equals_oracle"} if place == "state" else {"serving_shows_the_state"}) <= found
    if place == "state":
        (difference,) = kept.rebuild(dry_run=True).comparison.differences
        assert (difference.column, difference.before, difference.after) == ("note", '"not new"', '"new"')
