"""Copies counted by SQL against copies counted in Python, over random histories on three nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.copies import cell_facts, confirmed_facts, copies_of
from helpers.histories import LATE_LANDING, NODES, NOW, Histories, histories
from helpers.reading import SEED, assert_same, land, read_rows
from helpers.schemas import FIELDS, KEYS, LOGGED, NARROW, PLAIN, READDED, WIDE, Subject
from helpers.tiers import often

from cdc_views.engines.base import Engine, RawTable
from cdc_views.model.schema import TableSchema
from cdc_views.operations.replication import PartialFact, confirmed_raw, counting, partial_facts
from cdc_views.operations.replication.arrivals import arrivals
from cdc_views.operations.replication.counting import Expected, Reader, count
from cdc_views.operations.replication.places import CellStructs, places
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.facts import Bound, Origin
from cdc_views.rules.oracle import latest_rows, path_type

pytestmark = pytest.mark.heavy

SUBJECTS = [NARROW, READDED, WIDE, PLAIN, FIELDS, KEYS]
CASES = 30
FORMAT = "cassandra-mutation"
Landed = tuple[Histories, RawTable]
LandedOf = Callable[[Subject], Landed]


def name_of(value: object) -> str | None:
    """Return a subject's name, for pytest's ids."""
    return value.name if isinstance(value, Subject) else None


@pytest.fixture(scope="module")
def landed_of(tmp_path_factory: pytest.TempPathFactory) -> LandedOf:
    known: dict[str, Landed] = {}

    def make(subject: Subject) -> Landed:
        if subject.name not in known:
            made = histories(subject, cases=CASES, seed=SEED)
            known[subject.name] = made, land(tmp_path_factory.mktemp(subject.name), subject.relation, made.early, made.late)
        return known[subject.name]

    return make


def counts(raw: RawTable, factor: int, *nodes: str) -> tuple[dict[int, int], list[tuple[str, int, int]]]:
    """Return what the report counts: by number of copies, and (node, seen, lacking)."""
    report = count(raw, Expected(factor, nodes))
    return {n: facts for n, facts in report.copies.items() if facts}, [(n.node, n.seen, n.lacking) for n in report.nodes]


def expected_counts(made: Histories, factor: int, *nodes: str) -> tuple[dict[int, int], list[tuple[str, int, int]]]:
    found = copies_of(made.subject.schema, made.facts)
    known = sorted({*NODES, *nodes})
    return found.by_number(), [(n, found.seen(n), found.lacking(n, factor=factor, known=known)) for n in known]


@pytest.mark.parametrize("subject", often(SUBJECTS, SUBJECTS[0], LOGGED), ids=name_of)
def test_copies_are_counted_as_in_python(landed_of: LandedOf, subject: Subject) -> None:
    made, raw = landed_of(subject)
    assert counts(raw, 3) == expected_counts(made, 3)


@pytest.mark.parametrize("subject", often([SUBJECTS[0], SUBJECTS[2]], SUBJECTS[0]), ids=name_of)
def test_of_more_nodes_than_the_factor_those_hold_a_partition_that_have_shown_any_of_it(
    landed_of: LandedOf, subject: Subject
) -> None:
    made, raw = landed_of(subject)
    assert counts(raw, 2, "node4") == expected_counts(made, 2, "node4") != counts(raw, 4, "node4")
    assert counts(raw, 4, "node4") == expected_counts(made, 4, "node4")


@pytest.mark.parametrize("subject", often(SUBJECTS, SUBJECTS[0], LOGGED), ids=name_of)
def test_what_each_node_landed_over_time_is_as_in_python(landed_of: LandedOf, subject: Subject) -> None:
    made, raw = landed_of(subject)
    expected = {}
    for node in NODES:
        spans = []
        for at, batch in ((0, made.early), (LATE_LANDING, made.late)):
            written = [one.written for fact in batch if fact.origin.node == node for one in cell_facts(subject.schema, fact)]
            spans.append((len(written), sum(at - one for one in written) // len(written) if written else None))
        expected[node] = spans
    found = arrivals(raw, spans=2)
    assert {node: [(one.facts, one.delay) for one in spans] for node, spans in found.items()} == expected
    assert [one.since for one in found["node1"]] == [0, LATE_LANDING // 2 + 1]


def told(schema: TableSchema, fact: PartialFact) -> tuple[Any, ...]:
    """A listed fact in the oracle's terms."""
    size = len(schema.partition)
    values = list(fact.key.values())
    partition = tuple(partition_identity(c.type, v) for c, v in zip(schema.partition, values[:size], strict=True))
    place: tuple[Any, ...] = tuple(comparable(c.type, v) for c, v in zip(schema.clustering, values[size:], strict=False))
    if fact.start is not None and fact.end is not None:
        place = (bound(schema, fact.start), bound(schema, fact.end))
    path = b"" if fact.path is None or fact.column is None else comparable(path_type(fact.column.type), fact.path)
    return fact.what, partition, place, fact.column.name if fact.column else "", path, fact.written, fact.nodes


def bound(schema: TableSchema, found: Bound) -> Any:
    return tuple(comparable(c.type, v) for c, v in zip(schema.clustering, found.prefix, strict=False)), found.inclusive


@pytest.mark.parametrize("subject", often(SUBJECTS, SUBJECTS[0], LOGGED), ids=name_of)
def test_facts_that_only_some_nodes_have_are_listed(landed_of: LandedOf, subject: Subject) -> None:
    made, raw = landed_of(subject)
    copies = copies_of(subject.schema, made.facts)
    for fewer_than, only_on, is_wanted in (
        (3, None, lambda nodes: len(nodes) < 3),
        (None, "node2", lambda nodes: nodes == {"node2"}),
        (2, "node2", lambda nodes: nodes == {"node2"}),
    ):
        listed = list(partial_facts(Reader(raw), fewer_than=fewer_than, only_on=only_on, known=NODES, factor=3))
        assert Counter(told(subject.schema, fact) for fact in listed) == copies.listed(is_wanted)
        assert all(set(fact.nodes) | set(fact.lacking) == set(NODES) for fact in listed)


def test_copies_told_again_at_other_places_and_orders_change_nothing(landed_of: LandedOf, tmp_path: Path) -> None:
    made, raw = landed_of(NARROW)
    again = [replace(f, origin=Origin(f.origin.node, "later", n)) for n, f in enumerate(made.facts)]
    Random(SEED).shuffle(again)
    twice = land(tmp_path, NARROW.relation, made.late, again, made.early)
    assert counts(twice, 3) == counts(raw, 3)


def test_cells_of_one_mutation_in_several_and_of_several_in_one_are_the_same_facts(tmp_path: Path) -> None:
    """A read repair sends what it merged in a mutation of its own."""
    made = histories(NARROW, cases=CASES, seed=SEED)
    split = [
        part
        for fact in made.facts
        for part in (
            replace(fact, deletion=None, cells={}, elements={}),
            *(replace(fact, liveness=None, deletion=None, cells={n: c}, elements={}) for n, c in fact.cells.items()),
            replace(fact, liveness=None, cells={}),
        )
    ]
    raw = land(tmp_path, NARROW.relation, [fact for fact in split if fact.deletion or fact.start is None])
    assert counts(raw, 3) == expected_counts(made, 3)


@pytest.mark.parametrize("subject", often(SUBJECTS, SUBJECTS[0], LOGGED), ids=name_of)
def test_the_confirmed_view_is_that_of_facts_of_a_quorum(duckdb_engine: Engine, landed_of: LandedOf, subject: Subject) -> None:
    made, raw = landed_of(subject)
    expected = latest_rows(subject.schema, confirmed_facts(subject.schema, made.facts, copies=2), now=NOW)
    with confirmed_raw(raw, factor=3, format_name=FORMAT) as confirmed:
        found = read_rows(duckdb_engine, confirmed, as_of=NOW)
    assert_same(expected, found, of=made, how="confirmed")
    assert expected != latest_rows(subject.schema, made.facts, now=NOW)


def test_what_landed_later_confirms_nothing(duckdb_engine: Engine, landed_of: LandedOf) -> None:
    made, raw = landed_of(NARROW)
    expected = latest_rows(NARROW.schema, confirmed_facts(NARROW.schema, made.early, copies=2), now=NOW)
    with confirmed_raw(raw, factor=3, format_name=FORMAT, landed_as_of=LATE_LANDING - 1) as confirmed:
        found = read_rows(duckdb_engine, confirmed, as_of=NOW, landed_as_of=LATE_LANDING - 1)
    assert_same(expected, found, of=made, how="confirmed, landed early")


@pytest.mark.parametrize(("factor", "copies"), [(2, 2), (4, 3)])
def test_a_quorum_is_more_than_half(duckdb_engine: Engine, landed_of: LandedOf, factor: int, copies: int) -> None:
    made, raw = landed_of(NARROW)
    expected = latest_rows(NARROW.schema, confirmed_facts(NARROW.schema, made.facts, copies=copies), now=NOW)
    with confirmed_raw(raw, factor=factor, format_name=FORMAT) as confirmed:
        found = read_rows(duckdb_engine, confirmed, as_of=NOW)
    assert_same(expected, found, of=made, how=f"confirmed by {copies} of {factor}")


def test_one_replica_confirms_everything(duckdb_engine: Engine, landed_of: LandedOf) -> None:
    made, raw = landed_of(READDED)
    with confirmed_raw(raw, factor=1, format_name=FORMAT) as confirmed:
        found = read_rows(duckdb_engine, confirmed, as_of=NOW)
    assert_same(latest_rows(READDED.schema, made.facts, now=NOW), found, of=made, how="confirmed by one")


IDENTITY = [(NARROW, "written"), (NARROW, "rank"), (NARROW, "path"), (WIDE, "value"), (WIDE, "key"), (WIDE, "at")]
IDENTITY += [(PLAIN, "bytes")]


@pytest.mark.parametrize(("subject", "field"), IDENTITY, ids=lambda v: name_of(v) or v)
def test_a_field_left_out_of_the_identity_is_noticed(
    landed_of: LandedOf, monkeypatch: pytest.MonkeyPatch, subject: Subject, field: str
) -> None:
    def careless(place: CellStructs) -> CellStructs:
        kept = tuple(name for name in place.identity if name != field)
        return place if kept == place.identity else replace(place, identity=kept, carried=(*place.carried, field))

    made, raw = landed_of(subject)
    monkeypatch.setattr(counting, "places", lambda schema: map(careless, places(schema)))
    assert counts(raw, 3) != expected_counts(made, 3)


def test_a_copy_that_is_lost_is_noticed(landed_of: LandedOf, tmp_path: Path) -> None:
    made, _ = landed_of(NARROW)
    lost = next(fact for fact in made.facts if fact.cells and fact.origin.node == "node1")
    kept = [fact for fact in made.facts if replace(fact, origin=lost.origin) != lost or fact.origin.node != "node1"]
    assert counts(land(tmp_path, NARROW.relation, kept), 3) != expected_counts(made, 3)
