"""`debezium-cassandra` against 30 captured statements, each with the mutation the commit log really held."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers.debezium_cassandra_samples import ADDRESS, DATA, INT, KV, NOW, SAMPLES, TEXT, D, decode, event_of, schema_of

from cdc_views.errors import UnsupportedError
from cdc_views.formats.base import SourceLine, Verdict
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.landing.denylist import Denylist, ErasedKey, add, without_forgotten
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, LogicalType, Scalar, SetOf, Udt
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.jsonread import from_json
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind
from cdc_views.rules.oracle import latest_rows, path_type

EXACT = [
    "insert", "update", "null_cell", "delete_column", "delete_row", "delete_partition", "range_gt_le", "range_open",
    "range_prefix", "kv_insert", "kv_delete", "json_only_pk", "lwt_insert",
    # not asked for, and equal all the same
    "insert_collections", "insert_ttl", "update_ttl", "list_append", "set_add", "set_null", "map_put", "map_remove",
]  # fmt: skip
LOSSY = {
    "batch_mixed_ts": ("*", Verdict.APPROXIMATE),
    "insert_and_delete_same_row": ("*", Verdict.UNSAFE),
    "list_set_idx": ("l", Verdict.UNSAFE),
    "set_overwrite": ("se", Verdict.UNSAFE),
    "set_remove": ("se", Verdict.UNSAFE),
    "static": ("st", Verdict.UNSAFE),
    "static_and_row": ("st", Verdict.UNSAFE),
    "types": ("d", Verdict.APPROXIMATE),
}


def from_debezium(name: str) -> list[Fact]:
    return [fact for event in SAMPLES[name]["debezium_events"] for fact in decode(event, schema_of(name))]


# --- the other witness: the mutation itself -------------------------------------------------------------------------


def from_mutation(name: str) -> list[Fact]:
    mutation, schema = SAMPLES[name]["commitlog_mutation"], schema_of(name)
    partition = tuple(mutation["pk"][c.name] for c in schema.partition)
    facts = []
    if "partitionDeletion" in mutation:
        facts.append(Fact(FactKind.PARTITION, partition, deletion=_deletion(mutation["partitionDeletion"])))
    rows = mutation.get("rows", [])
    facts += [_row_fact(row, schema, partition) for row in rows if row["kind"] != "rtBound"]
    bounds = [row for row in rows if row["kind"] == "rtBound"]
    for start, end in zip(bounds[::2], bounds[1::2], strict=True):
        deletion = _deletion(start["opens"])
        facts.append(Fact(FactKind.RANGE, partition, deletion=deletion, start=_bound(start), end=_bound(end)))
    return facts


def _deletion(found: Any) -> Deletion:
    return Deletion(found["ts"], found["ldt"])


def _bound(row: Any) -> Bound:
    return Bound(tuple(row["ck"].values()), row["bound"].startswith("INCL"))


def _row_fact(row: Any, schema: TableSchema, partition: tuple[Any, ...]) -> Fact:
    cells: dict[str, Cell] = {}
    elements: dict[str, Elements] = {}
    for entry in row.get("cells", []):
        column = schema.column(entry["col"])
        known = elements.get(column.name, Elements())
        if "complexDeletion" in entry:
            elements[column.name] = Elements(_deletion(entry["complexDeletion"]), known.cells)
        elif "path" in entry:
            path = from_json(path_type(column.type), entry["path"])
            kind = None if isinstance(column.type, SetOf) else getattr(column.type, "value", None) or column.type.element  # type: ignore[attr-defined]
            elements[column.name] = Elements(known.deletion, (*known.cells, (path, _cell(kind, entry))))
        else:
            cells[column.name] = _cell(column.type, entry)
    if row["kind"] == "static":
        return Fact(FactKind.STATIC, partition, cells=cells, elements=elements)
    live, gone = row.get("liveness"), row.get("rowDeletion")
    return Fact(
        FactKind.ROW,
        partition,
        tuple(row["ck"][c.name] for c in schema.clustering),
        Liveness(live["ts"], live.get("ttl"), live.get("ldt")) if live else None,
        _deletion(gone) if gone else None,
        cells=cells,
        elements=elements,
    )


def _cell(kind: LogicalType | None, entry: Any) -> Cell:
    if entry.get("tombstone"):
        return Cell(entry["ts"], deleted_at=entry["ldt"])
    value = b"" if kind is None else from_json(kind, entry["value"])
    data = b"" if kind is None else serialize(kind, value)
    return Cell(entry["ts"], value, data, entry.get("ttl"), entry.get("ldt"))


def _whole_row(key: tuple[Any, ...], written: int) -> Fact:
    """A row with every column set, so that whatever a statement hides or leaves shows."""
    values = {
        "b": b"\x01", "big": 7, "bo": False, "d": Decimal("1.0"), "fl": (1,), "fu": ("s", 1), "ts": 5, "v": 1, "w": "w",
    }  # fmt: skip
    cells = {name: Cell(written, value, serialize(D.column(name).type, value)) for name, value in values.items()}
    elements = {
        "se": Elements(None, tuple((e, Cell(written, b"", b"")) for e in ("old", "p"))),
        "m": Elements(None, tuple((k, Cell(written, 9, serialize(INT, 9))) for k in ("b", "old"))),
    }
    return Fact(FactKind.ROW, key[:1], key[1:], Liveness(written), cells=cells, elements=elements)


@cache
def _history(schema: TableSchema) -> list[Fact]:
    """What stood before a sample: whole rows that it may touch."""
    written = 10**15
    if schema is KV:
        cells = {"n": Cell(written, 5, serialize(INT, 5)), "v": Cell(written, "old", b"old")}
        return [Fact(FactKind.ROW, ("k1",), (), Liveness(written), cells=cells)]
    keys = [(pk, ck1, ck2) for pk in (1, 2, 3, 4, 5) for ck1 in (1, 2, 3, 4, 5, 7, 100) for ck2 in ("a", "b", "c", "x", "z", "t")]
    statics = Fact(FactKind.STATIC, (1,), cells={"st": Cell(written, "old", b"old")})
    return [statics, *(_whole_row(key, written) for key in keys)]


def rows(name: str, facts: list[Fact], *, now: int = NOW) -> list[str]:
    return [repr(row) for row in latest_rows(schema_of(name), [*_history(schema_of(name)), *facts], now=now)]


# --- the tests --------------------------------------------------------------------------------------------------------


def test_every_sample_is_proven_exact_or_named_lossy_or_refused() -> None:
    assert len(SAMPLES) == 30
    assert sorted([*EXACT, *LOSSY, "counter"]) == sorted(SAMPLES)


@pytest.mark.parametrize("name", EXACT)
def test_rows_equal_those_of_the_mutation(name: str) -> None:
    facts, truth = from_debezium(name), from_mutation(name)
    for now in (NOW, 1795255319, 1795338119):  # at and after each expiry
        assert rows(name, facts, now=now) == rows(name, truth, now=now)
    assert rows(name, facts) != rows(name, []), "the sample changes nothing, so it proves nothing"


@pytest.mark.parametrize("name", EXACT)
def test_rows_equal_when_nothing_came_before(name: str) -> None:
    schema = schema_of(name)
    assert latest_rows(schema, from_debezium(name), now=NOW) == latest_rows(schema, from_mutation(name), now=NOW)


@pytest.mark.parametrize("name", [name for name in LOSSY if name not in ("types", "batch_mixed_ts", "list_set_idx")])
def test_a_named_loss_is_a_real_one(name: str) -> None:
    assert rows(name, from_debezium(name)) != rows(name, from_mutation(name))


@pytest.mark.parametrize(("name", "expected"), LOSSY.items())
def test_fidelity_names_each_loss(name: str, expected: tuple[str, Verdict]) -> None:
    entries = [f for f in DebeziumCassandra().fidelity(D) if name in f.case.split(", ")]
    assert expected in [(f.column, f.verdict) for f in entries]


def test_a_batch_of_several_write_times_wins_over_what_was_written_between_them() -> None:
    between = Fact(FactKind.ROW, (2,), (1, "x"), cells={"v": Cell(1700000000025000, 77, serialize(INT, 77))})
    true = latest_rows(D, [between, *from_mutation("batch_mixed_ts")], now=NOW)
    seen = latest_rows(D, [between, *from_debezium("batch_mixed_ts")], now=NOW)
    assert (true[0]["v"], seen[0]["v"]) == (77, 1)


def test_a_list_index_that_is_set_is_read_as_appended() -> None:
    before = ["insert_collections", "list_append"]
    true = [f for name in [*before, "list_set_idx"] for f in from_mutation(name)]
    seen = [f for name in [*before, "list_set_idx"] for f in from_debezium(name)]
    assert latest_rows(D, true, now=NOW)[0]["l"] == (100, 2, 3, 4)
    assert latest_rows(D, seen, now=NOW)[0]["l"] == (1, 2, 3, 4, 100)


def test_a_decimal_loses_its_scale_and_nothing_else_of_all_the_types() -> None:
    true = latest_rows(D, from_mutation("types"), now=NOW)[0]
    seen = latest_rows(D, from_debezium("types"), now=NOW)[0]
    assert "12.340" in SAMPLES["types"]["cql"]
    assert str(seen.pop("d")) == "12.34"
    true.pop("d")
    assert seen == true


def test_a_static_column_leaves_the_row_beside_it_exact() -> None:
    true, seen = (
        latest_rows(D, facts, now=NOW)[0] for facts in (from_mutation("static_and_row"), from_debezium("static_and_row"))
    )
    assert (true.pop("st"), seen.pop("st")) == ("static2", None)
    assert seen == true


def test_counters_are_refused_by_name_and_have_no_events() -> None:
    assert SAMPLES["counter"]["debezium_events"] == []
    with pytest.raises(UnsupportedError, match="counter"):
        TableSchema("ks", "cntcdc", (Column("k", TEXT, Role.PARTITION), Column("n", Scalar(Kind.COUNTER))))


def test_fidelity_has_one_verdict_a_column_after_those_of_rows() -> None:
    named = [f.column for f in DebeziumCassandra().fidelity(D)]
    assert [c for c in named if c != "*"] == [c.name for c in D.columns]
    assert named[: named.count("*")] == ["*"] * named.count("*")


def test_a_user_type_that_is_not_frozen_is_unsafe_for_whole_rows() -> None:
    loose = Udt("ks", "addr", ADDRESS.fields, frozen=False)
    schema = TableSchema("ks", "t", (Column("k", INT, Role.PARTITION), Column("a", ADDRESS), Column("x", loose)))
    first = DebeziumCassandra().fidelity(schema)[0]
    assert (first.column, first.verdict) == ("*", Verdict.UNSAFE)
    assert "not frozen" in first.reason


# --- expiry, layouts, ranges ------------------------------------------------------------------------------------------


def test_an_expiry_is_kept_and_the_time_to_live_is_what_is_left_of_it() -> None:
    (fact,) = from_debezium("insert_ttl")
    assert fact.cells["v"].expires_at == 1795338119
    assert fact.cells["v"].ttl == 1795338119 - 1700000000
    assert fact.liveness == Liveness(1700000000004000, fact.cells["v"].ttl, 1795338119)
    assert len(latest_rows(D, [fact], now=1795338118)) == 1
    assert latest_rows(D, [fact], now=1795338119) == []


def test_an_insert_with_one_cell_that_never_expires_has_a_marker_that_never_does() -> None:
    event = event_of("insert_ttl")
    event["value"]["after"]["w"] = {"value": "x", "deletion_ts": None, "set": True}
    assert decode(event)[0].liveness == Liveness(1700000000004000)


@pytest.mark.parametrize("name", [*EXACT, *LOSSY])
def test_bigquery_records_give_the_same_facts(name: str) -> None:
    for event in SAMPLES[name]["debezium_events"]:
        assert decode(_as_bigquery(event["value"]), schema_of(name)) == decode(event, schema_of(name))


@pytest.mark.parametrize("name", EXACT)
def test_bare_values_and_envelopes_give_the_same_facts(name: str) -> None:
    value_type = json.loads((DATA / "debezium_value_schema.json").read_text())
    for event in SAMPLES[name]["debezium_events"]:
        same = decode(event, schema_of(name))
        assert decode(event["value"], schema_of(name)) == same
        if schema_of(name) is D:
            assert decode({"schema": value_type, "payload": event["value"]}) == same


def test_sanitized_names_find_their_columns() -> None:
    schema = TableSchema("ks", "d", (Column("1 key", INT, Role.PARTITION), Column("a-b", TEXT)))
    event = event_of("insert")["value"]
    event["after"] = {"_1_key": {"value": "5", "set": True}, "a_b": {"value": "x", "set": True}}
    (fact,) = decode(event, schema)
    assert (fact.partition, fact.cells["a-b"].value) == ((5,), "x")


def _as_bigquery(value: Any) -> Any:
    """As BigQuery exports the RECORD: integers as text, null members left out, a map as pairs."""
    if isinstance(value, dict):
        if set(value) == {"value", "deletion_ts", "set"} and isinstance(value["value"], dict) and "street" not in value["value"]:
            value = {**value, "value": [{"key": k, "value": v} for k, v in value["value"].items()]}
        return {k: _as_bigquery(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_as_bigquery(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_a_range_end_may_be_a_boundary_between_two_ranges() -> None:
    event = event_of("range_gt_le")
    event["value"]["after"]["_range_start"]["method"] = "INCL_END_EXCL_START_BOUNDARY"
    event["value"]["after"]["_range_end"]["method"] = "EXCL_END_INCL_START_BOUNDARY"
    (fact,) = decode(event)
    assert (fact.start, fact.end) == (Bound((1,), False), Bound((2,), False))


def test_a_snapshot_read_fills_gaps_only() -> None:
    event = event_of("insert")
    event["value"]["source"].update(snapshot="true", ts_us=1800000000000000)
    snapshot = decode(event)
    assert latest_rows(D, snapshot, now=NOW)[0]["v"] == 10
    streamed = Fact(FactKind.ROW, (1,), (1, "a"), cells={"v": Cell(5, 99, serialize(INT, 99))})
    assert latest_rows(D, [streamed, *snapshot], now=NOW)[0]["v"] == 99
    assert latest_rows(D, [*snapshot, *from_debezium("delete_row")], now=NOW) == []
    event["value"]["op"] = "r"  # as other connectors mark it
    assert decode(event) == snapshot


def test_an_update_that_only_empties_a_collection_has_the_deletions_own_write_time() -> None:
    alone, beside = event_of("set_null"), event_of("set_null")
    beside["value"]["after"]["v"] = {"value": 1, "deletion_ts": None, "set": True}
    assert decode(alone)[0].elements["se"].deletion == Deletion(1700000000014999, 1795251757)
    assert decode(beside)[0].elements["se"].deletion == Deletion(1700000000014998, 1795251757)


def test_of_a_forgotten_key_only_what_was_written_later_lands(tmp_path: Path) -> None:
    (fact,) = from_debezium("kv_insert")
    assert fact.liveness
    for name, forgotten, left in (("then", fact.liveness.written, []), ("before", fact.liveness.written - 1, [fact])):
        add(tmp_path / name, ErasedKey(KV, fact.partition), forgotten=forgotten, through=None)
        known, event = Denylist.read(tmp_path / name), SourceLine("{}")
        assert without_forgotten(known, DebeziumCassandra(), [fact], schema=KV, event=event, now=NOW * 10**6)[0] == left


def test_a_tombstone_record_and_a_heartbeat_say_nothing() -> None:
    assert decode({"key": {"pk": 1, "ck1": 1, "ck2": "a"}, "value": None}) == []
    assert decode({"ts_ms": 1795251757635}) == []
