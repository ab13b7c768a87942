"""Real tables kept as users keep them, and the ways in which they can go wrong."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_views import Project
from cdc_views.quality import Report
from cdc_views.table import Table
from helpers.command_line import table, write_project
from helpers.corrupting import Rows, retyped, silently

CASES = {"types3": "hid111.typed", "wide3": "hid211.orders"}
ETERNAL = -(1 << 63) + 1
"""The rank of a live cell that never expires."""
FAR = 4_000_000_000
"""An instant, in epoch seconds, that no clock has."""


@dataclass
class Kept:
    """A project of one captured table: three replicas landed, a state, a serving table, the source's answer."""

    root: Path
    name: str
    as_of: int

    @property
    def table(self) -> Table:
        """The table, as the project file has it now."""
        return Project.load(self.root / "cdc_views.yml").table(self.name)

    @property
    def state(self) -> str:
        """Location of its state."""
        return str(next((self.root / "warehouse" / "state").glob("*/1")))

    @property
    def serving(self) -> str:
        """Location of its serving table."""
        return str(self.table.serving_location)

    @property
    def raw(self) -> str:
        """Location of its raw table."""
        return self.table.raw.location

    def validate(self, **options: Any) -> Report:
        """Run its tests as of the source's answer."""
        return self.table.validate(**{"as_of": self.as_of, "seed": 1, **options})


def made(root: Path, cases: Path, case: str, which: str = "late") -> Kept:
    """Make the project in an empty folder."""
    answer = json.loads((cases / case / f"expected_{which}.json").read_text("utf-8"))
    shutil.copy(cases / case / f"expected_{which}.json", root / "truth.json")
    shutil.copy(cases / case / "schema.cql", root / "schema.cql")
    key = "id" if case == "types3" else "tenant"
    tests = [{"truth": "truth.json"}, {"column": key, "not_null": True}, {"name": "kept_rule", "holds": f"{key} <> 'nobody'"}]
    more = {"materialize": {"serving": True}, "replication_factor": 3, "tests": tests}
    entry = table(CASES[case], "schema.cql", "cassandra-mutation", **more)
    write_project(entry, name=str(root / "cdc_views.yml"))
    kept = Kept(root, CASES[case], answer["as_of"])
    for node in (1, 2, 3):
        kept.table.land(cases / case / f"node{node}.jsonl")
    kept.table.materialize(now=answer["as_of"])
    return kept


Change = Callable[[Kept], None]


@dataclass(frozen=True)
class Corruption:
    """Something that goes wrong, the test that is to notice, and what it is to say where."""

    what: str
    found_by: str
    change: Change
    says: str = ""
    case: str = "types3"
    options: dict[str, Any] = field(default_factory=dict)


def of_rows(place: str, pick: Callable[[dict[str, Any]], bool], change: Callable[[Rows, dict[str, Any]], Rows]) -> Change:
    """Change the rows of one file silently, by the first row that `pick` wants."""

    def apply(kept: Kept) -> None:
        def rewritten(rows: Rows) -> Rows | None:
            found = next((row for row in rows if pick(row)), None)
            return None if found is None else change(rows, found)

        assert silently(getattr(kept, place), rewritten) == 1, "no file had such a row"

    return apply


def without(rows: Rows, row: dict[str, Any]) -> Rows:
    return [other for other in rows if other is not row]


def twice(rows: Rows, row: dict[str, Any]) -> Rows:
    return [*rows, row]


def having(**values: Any) -> Callable[[Rows, dict[str, Any]], Rows]:
    """The row with other values; a function makes one of what was there."""

    def change(rows: Rows, row: dict[str, Any]) -> Rows:
        new = {name: value(row[name]) if callable(value) else value for name, value in values.items()}
        return [{**other, **new} if other is row else other for other in rows]

    return change


def cell(row: dict[str, Any], name: str) -> bool:
    """Whether a cell with a value is there."""
    return row["_kind"] == "row" and row.get(name) is not None and row[name]["value"] is not None


def is_row(row: dict[str, Any]) -> bool:
    return bool(row["_kind"] == "row" and row["_live"])


def is_plain_cell(row: dict[str, Any]) -> bool:
    return cell(row, "t") and bool(row["t"]["rank"] == ETERNAL)


def is_static_cell(row: dict[str, Any]) -> bool:
    return bool(row["_kind"] == "static" and row["st"] is not None and row["st"]["rank"] == ETERNAL)


def is_deleted(row: dict[str, Any]) -> bool:
    """A row that was deleted once."""
    return row["_kind"] in ("row", "partition") and row["_deleted"] is not None


def removed(place: str) -> Change:
    """Remove one file."""
    return lambda kept: Path(sorted(DeltaTable(getattr(kept, place)).file_uris())[-1]).unlink()


def cut(place: str) -> Change:
    """Cut a file in two."""

    def apply(kept: Kept) -> None:
        path = Path(sorted(DeltaTable(getattr(kept, place)).file_uris())[-1])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return apply


def flipped(place: str) -> Change:
    """Flip one bit in the middle of a file."""

    def apply(kept: Kept) -> None:
        path = Path(sorted(DeltaTable(getattr(kept, place)).file_uris())[-1])
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return apply


def deleted(place: str, condition: str) -> Change:
    """Delete rows as Delta would, by a commit of somebody else's."""
    return lambda kept: DeltaTable(getattr(kept, place)).delete(condition) and None


def moved_back(place: str) -> Change:
    """Commit a watermark lower than the newest."""

    def apply(kept: Kept) -> None:
        target = DeltaTable(getattr(kept, place))
        log = "".join(path.read_text("utf-8") for path in Path(getattr(kept, place), "_delta_log").glob("*.json"))
        names = re.findall(r'"appId": ?"(cdc-views:(?:state:\d+:mark|serving:[^"]+))"', log)
        assert names, "the log has marks of ours"
        properties = CommitProperties(app_transactions=[Transaction(name, 1) for name in sorted(set(names))])
        empty = target.schema().to_arrow()
        write_deltalake(target, pa.schema(empty).empty_table(), mode="append", commit_properties=properties)

    return apply


def raw_is_older(kept: Kept) -> None:
    """As after a restore from a backup: the newest commit of raw is gone."""
    newest = max(Path(kept.raw, "_delta_log").glob("*.json"))
    newest.unlink()


def without_node(kept: Kept) -> None:
    node = max({row["_origin"]["node"] for row in DeltaTable(kept.raw).to_pyarrow_table(columns=["_origin"]).to_pylist()})
    DeltaTable(kept.raw).delete(f"_origin.node = '{node}'")


def quarantined(kept: Kept) -> None:
    bad = kept.root / "bad.jsonl"
    bad.write_text('{"format":"cassandra-mutation/1","node":"n"}\n')
    kept.table.land(bad)
    kept.table.materialize(now=kept.as_of)


def with_test(**test: Any) -> Change:
    """A data test of the user's that does not hold."""

    def apply(kept: Kept) -> None:
        path = kept.root / "cdc_views.yml"
        written = yaml.safe_load(path.read_text("utf-8"))
        written["tables"][0]["tests"] = [test]
        path.write_text(yaml.safe_dump(written), "utf-8")
        time.sleep(1.1 if "fresh_within" in test else 0)

    return apply


def truth(change: Callable[[list[Any]], list[Any]]) -> Change:
    """The source answered something else."""

    def apply(kept: Kept) -> None:
        path = kept.root / "truth.json"
        answer = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**answer, "rows": change([json.loads(row) for row in answer["rows"]])}), "utf-8")

    return apply


def landed_unseen(kept: Kept) -> None:
    """Events that the state does not have yet, landed long enough ago."""
    with_test(lag_within="0s")(kept)
    node = kept.root / "again.jsonl"
    node.write_text(json.dumps(EVENT) + "\n")
    kept.table.land(node)
    time.sleep(2.1)


EVENT = {
    "format": "cassandra-mutation/1", "node": "127.0.0.1", "segment": 9, "position": 9, "keyspace": "hid111", "table": "typed",
    "partition": {"id": "new"}, "rows": [{"kind": "row", "clustering": {}, "liveness": {"written": 1}}],
}  # fmt: skip


def older(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "written": found["written"] - 1, "value": "what it was before"}


CORRUPTIONS = [
    # raw
    Corruption("a file of raw is gone", "files_are_whole.raw", removed("raw"), "is not there"),
    Corruption("a file of raw is cut", "files_are_whole.raw", cut("raw"), "bytes"),
    Corruption("a bit of raw has flipped", "files_are_as_written.raw", flipped("raw"), "has changed since it was written"),
    Corruption("raw is older than the state", "raw_is_the_one_known", raw_is_older, "restored from a backup"),
    Corruption("a replica is silent", "replica_coverage", without_node, "2 of 3 nodes", options={"raw": True}),
    Corruption("a replica lost an event", "replica_coverage", of_rows("raw", is_row, without), "lacks", options={"raw": True}),
    Corruption("an event of no kind", "facts_are_known", of_rows("raw", is_row, having(_kind="rwo")), options={"raw": True}),
    Corruption("an event without a key", "facts_are_known", of_rows("raw", is_row, having(id=None)), options={"raw": True}),
    Corruption(
        "a client's clock is years ahead", "not_from_the_future",
        of_rows("state", is_plain_cell, having(t=lambda t: {**t, "written": FAR * 1_000_000})),
    ),
    Corruption("an event is in quarantine", "nothing_in_quarantine", quarantined, "bad.jsonl:1"),
    # state
    Corruption("a file of the state is gone", "files_are_whole.state", removed("state"), "is not there"),
    Corruption("a file of the state is cut", "files_are_whole.state", cut("state"), "bytes"),
    Corruption("a bit of the state has flipped", "files_are_as_written.state", flipped("state"), "materialize --full"),
    Corruption("somebody deletes from the state", "only_our_commits.state", deleted("state", "_kind = 'row'"), "DELETE"),
    Corruption("a row is dropped", "sample_equals_oracle", of_rows("state", is_plain_cell, without), "the row is missing"),
    Corruption("a row is twice", "one_row_per_key", of_rows("state", is_plain_cell, twice)),
    Corruption("a row comes from nowhere", "sample_equals_oracle",
               of_rows("state", is_plain_cell, lambda rows, row: [*rows, {**row, "id": "nobody knows"}]), "not expected"),
    Corruption("a cell is older than it should be", "sample_equals_oracle",
               of_rows("state", is_plain_cell, having(t=older)), "column t differs"),
    Corruption("a cell is lost", "sample_equals_oracle", of_rows("state", is_plain_cell, having(t=None)), "column t differs"),
    Corruption("a cell has another value", "sample_equals_oracle",
               of_rows("state", is_plain_cell, having(t=lambda t: {**t, "value": "x" * 9})), "column t differs"),
    Corruption("a time to live is ignored", "sample_equals_oracle",
               of_rows("state", lambda row: cell(row, "b") and ETERNAL < row["b"]["rank"] < 0,
                       having(b=lambda b: {**b, "rank": ETERNAL})), "column b differs"),
    Corruption("a cell that expires is read without a clock", "plain_rows_never_expire",
               of_rows("state", lambda row: row["id"] == "k3", having(b=lambda b: {**b, "rank": ETERNAL + (5 << 31)}))),
    Corruption("a tombstone is lost", "deletions_are_kept", of_rows("state", is_deleted, having(_deleted=None)), "is not kept"),
    Corruption("a deletion is older than it was", "deletions_are_kept",
               of_rows("state", is_deleted, having(_deleted=lambda d: {**d, "written": 1})), "is not kept"),
    Corruption("what was deleted is kept", "nothing_deleted_is_kept",
               of_rows("state", is_plain_cell, having(_deleted={"written": FAR * 1_000_000, "at": FAR}))),
    Corruption("a cell without a write time", "cells_have_write_times",
               of_rows("state", is_plain_cell, having(t=lambda t: {**t, "written": None}))),
    Corruption("a fact of the state has no key", "facts_are_known", of_rows("state", is_plain_cell, having(id=None))),
    Corruption("a row shows without a key", "key_not_null", of_rows("state", is_plain_cell, having(id=None))),
    Corruption("a row shows half of a key", "key_not_null", of_rows("state", is_row, having(kind=None)), "", "wide3"),
    Corruption("the watermark moves back", "watermark_never_goes_back.state", moved_back("state"), "after"),
    Corruption("the state has another type", "types_as_the_schema_says.state", lambda kept: retyped(kept.state, "id", "integer")),
    Corruption("a static cell is lost", "sample_equals_oracle",
               of_rows("state", is_static_cell, having(st=None)),
               "column st differs", "wide3"),
    Corruption("an element is lost", "sample_equals_oracle",
               of_rows("state", lambda row: row["_kind"] == "row" and bool(row["m"] and row["m"]["cells"]),
                       having(m=lambda m: {**m, "cells": m["cells"][1:]})), "column m differs", "wide3"),
    Corruption("a row is under another key", "sample_equals_oracle",
               of_rows("state", lambda row: row["_kind"] == "row" and row["_live"] is not None,
                       lambda rows, row: [{**r, "seq": r["seq"] + 1000} if r is row else r for r in rows]), "", "wide3"),
    # serving
    Corruption("a file of the serving table is gone", "files_are_whole.serving", removed("serving"), "is not there"),
    Corruption("somebody writes to the serving table", "only_our_commits.serving", deleted("serving", "t IS NOT NULL"), "DELETE"),
    Corruption("a served row is dropped", "serving_shows_the_state", of_rows("serving", bool, without), "is missing"),
    Corruption("a served row is twice", "one_row_per_key.serving", of_rows("serving", bool, twice)),
    Corruption("a served cell differs", "serving_shows_the_state", of_rows("serving", bool, having(t="other")), "differs"),
    Corruption("a served row comes from nowhere", "serving_shows_the_state",
               of_rows("serving", bool, lambda rows, row: [*rows, {**row, "id": "nobody knows"}]), "nobody knows"),
    Corruption("what expired is served", "nothing_expired.serving", of_rows("serving", bool, having(_changes_at=5))),
    Corruption("the serving watermark moves back", "watermark_never_goes_back.serving", moved_back("serving"), "after"),
    Corruption("the serving table has another type", "types_as_the_schema_says.serving",
               lambda kept: retyped(kept.serving, "t", "integer")),
    # the source, and what the user adds
    Corruption("the source has another value", "agrees_with_source",
               truth(lambda rows: [{**rows[0], "t": "other"}, *rows[1:]]), "column t differs"),
    Corruption("the source has a row less", "agrees_with_source", truth(lambda rows: rows[1:]), "the source has no such row"),
    Corruption("the source has another row", "agrees_with_source",
               truth(lambda rows: [*rows, {**rows[0], "id": "new"}]), "the view has no such row"),
    Corruption("a rule of the user's is broken", "mine", with_test(name="mine", holds="id = 'nobody'")),
    Corruption("a column that may not be null is", "not_null.b", with_test(column="b", not_null=True)),
    Corruption("a value is none of those allowed", "one_of.t", with_test(column="t", one_of=["a"])),
    Corruption("nothing landed lately", "freshness", with_test(fresh_within="0s"), "last landed"),
    Corruption("the state lags behind", "state_lag", landed_unseen, "not in the state yet"),
]  # fmt: skip
