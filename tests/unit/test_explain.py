"""`explain`: the candidates of a row, the winner and the rule, and that it never contradicts the oracle."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import NOW, SCHEMA, event, make_project, raw_table, write_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_views.cli import main
from cdc_views.errors import UnknownColumnError, UsageError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import land
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt
from cdc_views.operations.explaining import Explanation, Outcome, Scope, explain_facts
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.comparable import comparable, uncomparable
from cdc_views.rules.codec.jsonread import parse_key
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind, Origin
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of

INT, TEXT, DECIMAL = Scalar(Kind.INT), Scalar(Kind.TEXT), Scalar(Kind.DECIMAL)
POINT = Udt("ks", "point", (("x", INT), ("Y", TEXT)), frozen=False)
WIDE = TableSchema(
    "ks",
    "wide",
    (
        Column("p", INT, Role.PARTITION),
        Column("a", DECIMAL, Role.CLUSTERING, descending=True),
        Column("b", TEXT, Role.CLUSTERING),
        Column("s", TEXT, Role.STATIC),
        Column("ss", SetOf(INT, frozen=False), Role.STATIC),
        Column("v", INT),
        Column("D", Scalar(Kind.DOUBLE)),
        Column("old", INT),
        Column("m", MapOf(TEXT, INT, frozen=False)),
        Column("l", ListOf(TEXT, frozen=False)),
        Column("u", POINT),
        Column("f", TupleOf((INT, TEXT))),
    ),
    dropped=(DroppedColumn("old", 4, INT),),
)

times = st.integers(1, 8)
seconds = st.integers(1, 6)
deletions = st.builds(Deletion, times, seconds)
keys = st.tuples(st.sampled_from([Decimal("1.0"), Decimal("1"), Decimal("-2.5")]), st.sampled_from(["", "x"]))


def cells(kind: LogicalType | None, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Cell]:
    def cell(written: int, value: Any, shape: int, at: int) -> Cell:
        given = b"" if kind is None else serialize(kind, value)
        if shape == 0:
            return Cell(written, deleted_at=at)
        return Cell(written, value, given) if shape == 1 else Cell(written, value, given, shape, at)

    return st.builds(cell, times, values, st.integers(0, 3), seconds)


def elements(paths: st.SearchStrategy[Any], inner: st.SearchStrategy[Cell]) -> st.SearchStrategy[Elements]:
    return st.builds(
        Elements, st.none() | deletions, st.lists(st.tuples(paths, inner), max_size=2, unique_by=lambda e: str(e[0])).map(tuple)
    )


ints = st.sampled_from([0, 1, -1, EMPTY])
texts = st.sampled_from(["", "a", "b"])
uuids = st.sampled_from(["00000000-0000-1000-8000-000000000001", "00000001-0000-1000-8000-000000000001"])


def udt_elements() -> st.SearchStrategy[Elements]:
    either = st.tuples(st.just("x"), cells(INT, ints)) | st.tuples(st.just("Y"), cells(TEXT, texts))
    found = st.lists(either, max_size=2, unique_by=lambda pair: pair[0]).map(tuple)
    return st.builds(Elements, st.none() | deletions, found)


def some(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


def timeuuids() -> st.SearchStrategy[Any]:
    import uuid

    return uuids.map(uuid.UUID)


simple = some(
    v=cells(INT, ints),
    D=cells(Scalar(Kind.DOUBLE), st.sampled_from([0.0, -0.0, 1.5])),
    old=cells(INT, ints),
    f=cells(TupleOf((INT, TEXT)), st.sampled_from([(1, None), (EMPTY, "a"), (None, None)])),
)
multi = some(m=elements(texts, cells(INT, ints)), l=elements(timeuuids(), cells(TEXT, texts)), u=udt_elements())
static_texts = some(s=cells(TEXT, texts))
static_sets = some(ss=elements(st.integers(0, 2), cells(None, st.just(b""))))
markers = st.builds(Liveness, times) | st.builds(Liveness, times, st.just(5), seconds)
origins = st.builds(Origin, st.sampled_from(["n1", "n2"]), st.just("1"), st.integers(0, 3))
bounds = st.builds(Bound, keys.flatmap(lambda key: st.integers(0, 2).map(lambda size: key[:size])), st.booleans())
partitions = st.just((1,))
facts = st.lists(
    st.builds(
        Fact,
        st.just(FactKind.ROW),
        partitions,
        keys,
        liveness=st.none() | markers,
        deletion=st.none() | deletions,
        cells=simple,
        elements=multi,
        origin=origins,
    )
    | st.builds(
        Fact, st.just(FactKind.STATIC), partitions, cells=some(s=cells(TEXT, texts)), elements=static_sets, origin=origins
    )
    | st.builds(Fact, st.just(FactKind.PARTITION), partitions, deletion=deletions, origin=origins)
    | st.builds(Fact, st.just(FactKind.RANGE), partitions, deletion=deletions, start=bounds, end=bounds, origin=origins)
    | st.builds(Fact, st.just(FactKind.TABLE), deletion=deletions, origin=origins),
    max_size=8,
)


def explained_row(found: Explanation, names: list[str]) -> dict[str, Any]:
    return {name: found.value(name) for name in names}


@pytest.mark.heavy
@settings(max_examples=4 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts, st.integers(0, 7))
def test_explain_shows_what_the_oracle_shows(found: list[Fact], now: int) -> None:
    names = [column.name for column in WIDE.columns if not column.is_key]
    expected = {
        (comparable(DECIMAL, row["a"]), row["b"]): row for row in latest_rows(WIDE, found, now=now) if row["a"] is not None
    }
    seen = {(comparable(DECIMAL, f.clustering[0]), f.clustering[1]): f.clustering for f in found if f.kind is FactKind.ROW}
    for place, clustering in seen.items():
        mine = [
            f for f in found if f.kind is not FactKind.ROW or (comparable(DECIMAL, f.clustering[0]), f.clustering[1]) == place
        ]
        explanation = explain_facts(WIDE, mine, key=((1,), clustering), now=now)
        assert explanation.is_row == (place in expected)
        if place in expected:
            assert repr(explained_row(explanation, names)) == repr({name: expected[place][name] for name in names})


@pytest.mark.heavy
@settings(max_examples=3 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts)
def test_rows_of_the_raw_table_give_their_facts_back(found: list[Fact]) -> None:
    relation = Relation(WIDE)
    assert [canonical(fact) for fact in facts_of(relation, relation.rows(found, landed_at=0))] == [canonical(f) for f in found]


def canonical(fact: Fact) -> str:
    """A fact as text: bounds by number (their scale is not kept), elements in any order, empty ones left out."""
    ends = [canonical_bound(bound) for bound in (fact.start, fact.end)]
    multi_cell = {
        name: (known.deletion, sorted(known.cells, key=repr)) for name, known in fact.elements.items() if known != Elements()
    }
    parts = (fact.kind, fact.partition, fact.clustering, fact.liveness, fact.deletion, ends, fact.origin)
    return repr((parts, sorted(fact.cells.items()), sorted(multi_cell.items(), key=lambda item: item[0])))


def canonical_bound(bound: Bound | None) -> Any:
    return bound and (bound.inclusive, bound.prefix[1:], [comparable(DECIMAL, value) for value in bound.prefix[:1]])


@given(st.integers())
def test_a_varint_comes_back_from_its_comparable(value: int) -> None:
    kind = Scalar(Kind.VARINT)
    assert uncomparable(kind, comparable(kind, value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_comes_back_from_its_comparable_up_to_its_scale(value: Decimal) -> None:
    assert uncomparable(DECIMAL, comparable(DECIMAL, value)) == value


@given(st.floats(allow_nan=False))
def test_a_double_comes_back_from_its_comparable(value: float) -> None:
    kind = Scalar(Kind.DOUBLE)
    assert repr(uncomparable(kind, comparable(kind, value))) == repr(value)


@given(st.uuids(version=1) | st.uuids(version=4))
def test_a_uuid_comes_back_from_its_comparable(value: Any) -> None:
    kind = Scalar(Kind.UUID)
    assert uncomparable(kind, comparable(kind, value)) == value
    if value.version == 1:
        assert uncomparable(Scalar(Kind.TIMEUUID), comparable(Scalar(Kind.TIMEUUID), value)) == value


@given(st.lists(st.tuples(st.none() | st.integers(0, 300), st.none() | st.text("\0\1\2ab", max_size=3)).map(tuple), max_size=3))
def test_nested_values_come_back_from_their_comparables(value: list[Any]) -> None:
    kind = ListOf(TupleOf((INT, TEXT)))
    assert uncomparable(kind, comparable(kind, tuple(value))) == tuple(value)
    text_map = MapOf(TEXT, SetOf(INT))
    entries = tuple((f"k{i}\0", (i, i + 1)) for i in range(len(value)))
    assert uncomparable(text_map, comparable(text_map, entries)) == entries
    assert uncomparable(INT, b"") is EMPTY


def test_each_loser_is_told_its_rule() -> None:
    def at(**cell: Any) -> Fact:
        value = cell.pop("value", None)
        given = b"" if value is None else serialize(INT, value)
        return Fact(FactKind.ROW, (1,), (Decimal(1), "x"), cells={"v": Cell(value=value, order_bytes=given, **cell)})

    contest = [
        at(written=5, deleted_at=3),
        at(written=5, value=9, ttl=1, expires_at=7),
        at(written=5, value=2),
        at(written=5, value=1),
        at(written=5, deleted_at=2),
        at(written=4, value=9),
    ]
    found = explain_facts(WIDE, contest, key=((1,), (Decimal(1), "x")), now=1)
    told = [(c.cell.written, c.outcome, c.rule) for c in found.places[0].candidates]
    assert told == [
        (5, Outcome.TOMBSTONE, "C5"),
        (5, Outcome.LOST, "C2.4"),
        (5, Outcome.LOST, "C2.3"),
        (5, Outcome.LOST, "C2.2"),
        (5, Outcome.LOST, "C2.2"),
        (4, Outcome.LOST, "C2.1"),
    ]


def test_shadowed_expired_and_dropped_candidates_are_told_by_scope() -> None:
    key = (Decimal(1), "x")
    origin = Origin("n1", "7", 3)
    live = Cell(4, 1, serialize(INT, 1))

    def outcome(*others: Fact, cell: Cell = live, name: str = "v", now: int = 9) -> tuple[Outcome, str]:
        row = Fact(FactKind.ROW, (1,), key, cells={name: cell}, origin=origin)
        found = explain_facts(WIDE, [row, *others], key=((1,), key), now=now)
        (candidate,) = found.places[0].candidates
        return candidate.outcome, candidate.rule

    whole = Bound((), True)
    assert outcome() == (Outcome.SHOWN, "")
    assert outcome(Fact(FactKind.ROW, (1,), key, deletion=Deletion(4, 1))) == (Outcome.DELETED, "D1")
    assert outcome(Fact(FactKind.PARTITION, (1,), deletion=Deletion(4, 1))) == (Outcome.DELETED, "D2")
    assert outcome(Fact(FactKind.RANGE, (1,), deletion=Deletion(4, 1), start=whole, end=whole)) == (Outcome.DELETED, "D2")
    assert outcome(Fact(FactKind.TABLE, deletion=Deletion(4, 1))) == (Outcome.DELETED, "S6")
    assert outcome(Fact(FactKind.PARTITION, (1,), deletion=Deletion(3, 1))) == (Outcome.SHOWN, "")
    expiring = Cell(4, 1, serialize(INT, 1), 5, 9)
    assert outcome(cell=expiring) == (Outcome.EXPIRED, "C4")
    assert outcome(cell=expiring, now=8) == (Outcome.SHOWN, "")
    assert outcome(cell=live, name="old") == (Outcome.DROPPED, "W6")


def test_copies_on_several_replicas_are_one_candidate_with_all_origins(tmp_path: Path) -> None:
    raw = raw_table(tmp_path)
    files = [write_lines(tmp_path / f"{n}.jsonl", event(1, node=n), event(2, node=n)) for n in ("n1", "n2", "n3")]
    land(raw, CassandraMutation(), files, now=datetime(2026, 11, 21, tzinfo=timezone.utc))
    facts = list(facts_of(raw.relation, DeltaTable(raw.location).to_pyarrow_table()))
    found = explain_facts(raw.relation.schema, [fact for fact in facts if fact.partition == (1,)], key=((1,), (0,)), now=NOW)
    state = next(place for place in found.places if place.column is not None)
    assert [origin.node for origin in state.candidates[0].origins] == ["n1", "n2", "n3"]
    assert {origin.position for origin in state.candidates[0].origins} == {1}
    assert found.value("state") == "open"
    assert found.is_row


def test_the_partition_columns_alone_ask_for_the_static_row() -> None:
    static = Fact(FactKind.STATIC, (1,), cells={"s": Cell(5, "a", b"a")})
    found = explain_facts(WIDE, [static, Fact(FactKind.PARTITION, (1,), deletion=Deletion(3, 1))], key=((1,), None), now=9)
    assert (found.value("s"), found.is_row) == ("a", True)
    assert [seen.scope for seen in found.deletions] == [Scope.PARTITION]
    assert dict(found.key) == {"p": 1}


def test_keys_are_checked() -> None:
    assert parse_key(WIDE, '{"p": 1, "a": 1.50, "b": ""}') == ((1,), (Decimal("1.50"), ""))
    assert parse_key(WIDE, {"p": 1}) == ((1,), None)
    assert parse_key(SCHEMA, {"id": 1, "line": 2}) == ((1,), (2,))
    with pytest.raises(UsageError, match="lacks 'b'"):
        parse_key(WIDE, '{"p": 1, "a": 1}')
    with pytest.raises(UnknownColumnError, match="no column 'q'"):
        parse_key(WIDE, '{"q": 1}')
    with pytest.raises(UsageError, match="not JSON"):
        parse_key(WIDE, "{p: 1}")
    with pytest.raises(UsageError, match="a JSON object such as"):
        parse_key(WIDE, "[1]")
    with pytest.raises(UsageError, match="'p'"):
        parse_key(WIDE, '{"p": "x", "a": 1, "b": ""}')


def test_the_command_prints_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    write_lines(tmp_path / "a.jsonl", event(1), event(1, state="done", position=2))
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders"]) == 0
    capsys.readouterr()
    arguments = ["explain", "shop.orders", "--key", '{"id": 1, "line": 0}', "--column", "state"]
    assert main([*arguments, "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["value"], row["outcome"], row["rule"], row["origins"]) for row in rows] == [
        ("open", "shown", "", ["n1 1:1"]),
        ("done", "lost", "C2.6", ["n1 1:2"]),
    ]
    assert main([*arguments, "--as-of", "0"]) == 0
    assert "the row exists at 1970-01-01T00:00:00Z" in capsys.readouterr().out
    assert main(["explain", "shop.orders", "--key", '{"id": 1, "line": 0}', "--column", "id"]) == 2
    assert main(["explain", "shop.orders", "--key", '{"id": 1, "lin": 0}']) == 2
    assert "did you mean 'line'?" in capsys.readouterr().err
