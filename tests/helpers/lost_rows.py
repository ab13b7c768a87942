"""Losses of thirteen kinds in raw, state, serving table, view and types of whole rows, and what `verify` must say of them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_views.api import Project
from cdc_views.operations.applied import applied_file
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.corrupting import silently
from helpers.producing import Producer
from helpers.verified import Verifying

Rows = list[dict[str, Any]]
EXPECTED = {
    ("raw", "missing row"): 8,
    ("raw", "missing write"): 8 + 8 + 6 + 4,
    ("raw", "lost deletion"): 8,
    ("raw", "foreign write"): 2,
    ("state", "wrong state"): 6 + 3,
    ("serving", "wrong serving table"): 6 + 3,
}
"""Cells by place and kind; a row that is lost is one. Four deletions that never were look like four missing writes: a log-ordered
source does not say when a row was written, and one that came after a deletion may be what is missing."""


@dataclass(frozen=True)
class LostRows:
    """A table with the key (a, b) and the texts v and `spare`; each kind of loss takes rows of its own, by `b`.

    Attributes:
        execute: Runs a statement in a transaction of its own, as a skipped segment would take it.
        landed: Waits until everything has landed.
        typed: Another table, with the key `id` and the `smallint` `small`.
        retyping: Makes `small` a text.
    """

    run: CommandLine
    verify: Verifying
    producer: Producer
    table: str
    spare: str
    execute: Callable[[str], Any]
    landed: Callable[[], None]
    typed: str
    retyping: Sequence[str]

    def proven(self) -> None:
        """Inject all kinds; assert that each is found and named."""
        with_serving_table(self.table)
        self.producer.start()
        self.producer.wait_until_said("following")
        self._write()
        self.landed()
        assert self.verify(self.table)[:2] == (0, [])
        assert self.producer.stop() == 0
        assert self.run("materialize", "--select", self.table).code == 0
        assert self.run("apply", "--select", self.table).code == 0
        kept = view_files(self.table)
        self._lose_in_raw()
        assert self.run("materialize", "--full", "--select", self.table).code == 0
        lose_in_state(self.table, "v", lambda row: row["b"] or 0)
        self.producer.start()
        self.producer.wait_until_said("following")
        self.execute(f"INSERT INTO {self.table} (a, b) VALUES ('end', 1)")
        self.landed()
        code, found, said = self.verify(self.table, "--sample", "0")
        told = Counter((one["place"], one["what"]) for one in found if one["verdict"] == "loss")
        assert (code, told) == (1, EXPECTED), (told, said)
        assert all(one["remedy"] for one in found)
        assert self.producer.stop() == 0  # it would replace the view
        check_stale_view(self.verify, self.table, kept)
        self._change_a_type()

    def _change_a_type(self) -> None:
        """In the source alone, make a `smallint` a text that is no number."""
        for statement in self.retyping:
            self.execute(statement)
        _, found, said = self.verify(self.typed, "--sample", "0", "--wait", "2")
        assert [(one["column"], one["what"]) for one in found if one["place"] == "type"] == [("small", "wrong type")], said

    def _write(self) -> None:
        self.execute(f"INSERT INTO {self.typed} (id, small) VALUES (900, 5)")
        rows = ", ".join(f"('a', {number}, 'first', 'T')" for number in range(1, 90))
        self.execute(f"INSERT INTO {self.table} (a, b, v, {self.spare}) VALUES {rows}")
        for number in range(1, 9):
            self.execute(f"INSERT INTO {self.table} (a, b, v, {self.spare}) VALUES ('lost', {number}, 'row', 'x')")
            self.execute(f"UPDATE {self.table} SET v = 'second' WHERE b = {10 + number}")
            self.execute(f"DELETE FROM {self.table} WHERE b = {20 + number}")
            self.execute(f"UPDATE {self.table} SET {self.spare} = NULL WHERE b = {30 + number}")

    def _lose_in_raw(self) -> None:
        def is_lost(row: dict[str, Any]) -> bool:
            b = row["b"] or 0
            second = (row["v"] or {}).get("value") == "second"
            spare = row[self.spare]
            is_nulled = spare is not None and spare["value"] is None and 30 < b < 39
            return row["a"] == "lost" or (second and 10 < b < 19) or (bool(row["_deleted"]) and 20 < b < 29) or is_nulled

        def lost(rows: Rows) -> Rows | None:
            left = [row for row in rows if not is_lost(row)]
            return left if len(left) < len(rows) else None

        def changed(rows: Rows) -> Rows | None:
            mine = [row for row in rows if 40 < (row["b"] or 0) < 47]
            for row in mine:
                row["v"]["value"] = "changed"
            return rows if mine else None

        def moved(rows: Rows) -> Rows | None:
            mine = [row for row in rows if row["_deleted"] and 20 < (row["b"] or 0) < 25]
            for row in mine:
                row["b"] += 63
            return rows if mine else None

        def beyond(rows: Rows) -> Rows | None:
            mine = [row for row in rows if 87 < (row["b"] or 0) < 90]
            foreign = copy.deepcopy(mine)
            for row in foreign:
                row["v"] |= {"written": row["v"]["written"] + (1 << 58), "value": "beyond"}
            return rows + foreign if mine else None

        for change in (moved, lost, changed, beyond):
            assert silently(raw_location(self.table), change, most=999)
        accepted = self.run("rebuild", self.table, "--accept")
        assert accepted.code == 0, accepted.err


def view_files(table: str) -> dict[Path, bytes]:
    """What a backup would keep of an applied view."""
    applied = Path(str(applied_file(Project.load().table(table))))
    return {file: file.read_bytes() for file in (Path("warehouse/views.duckdb").absolute(), applied)}


def check_stale_view(verify: Verifying, table: str, kept: dict[Path, bytes]) -> None:
    """Bring an older view back, as a backup does, and assert that it is named; nobody may replace it meanwhile."""
    for file, content in kept.items():
        file.write_bytes(content)
    _, found, said = verify(table, "--sample", "0", "--wait", "2")
    assert [one["what"] for one in found if one["place"] == "view"] == ["stale view"], said


def with_serving_table(table: str) -> None:
    """Give a table of the project file a serving table."""
    project = json.loads(Path("cdc_views.yml").read_text())
    for entry in project["tables"]:
        if entry["name"] == table:
            entry["materialize"] = {"serving": True}
    Path("cdc_views.yml").write_text(json.dumps(project))


def lose_in_state(table: str, column: str, number_of: Callable[[dict[str, Any]], int]) -> None:
    """In the state, change `column` of rows 51 to 56 and lose rows 61 to 63; in the serving table 71 to 76, and 81 to 83."""

    def wrong(rows: Rows, low: int, value: Callable[[Any], Any]) -> Rows | None:
        left = [row for row in rows if not low + 10 < number_of(row) < low + 14]
        mine = [row for row in left if low < number_of(row) < low + 7]
        for row in mine:
            row[column] = value(row[column])
        return left if mine or len(left) < len(rows) else None

    def of_state(cell: dict[str, Any]) -> dict[str, Any]:
        return {**cell, "value": "state", **({"bytes": b"state"} if "bytes" in cell else {})}

    kept = Project.load().table(table)
    assert kept.serving_location is not None
    assert silently(kept.state_location, lambda rows: wrong(rows, 50, of_state), most=999)
    assert silently(kept.serving_location, lambda rows: wrong(rows, 70, lambda _: "serving"), most=999)
