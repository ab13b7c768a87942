"""After a key is forgotten, state, tail and raw show what the other facts show: on random histories and on real events.

CDC_VIEWS_HISTORIES says how many histories a schema gets (200), CDC_VIEWS_SEED which ones (1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.histories import NOW, histories
from helpers.projects import add, project_of
from helpers.reading import CASES, SEED, canonical_row, read_rows
from helpers.schemas import KEYS, NARROW, SUBJECTS, Subject
from helpers.tiers import often

from cdc_views.api import Table
from cdc_views.engines.base import Engine
from cdc_views.formats.base import SourceLine
from cdc_views.landing.denylist import Denylist, ErasedKey, row_bytes, without_forgotten
from cdc_views.model.schema import TableSchema
from cdc_views.operations.erasing import forgetting
from cdc_views.operations.ingest import forgotten_of
from cdc_views.rules.codec.jsontext import quote, to_json
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema
from cdc_views.state import materialize, sources_of
from cdc_views.storage.relation_read import facts_of

pytestmark = pytest.mark.heavy

MICROS = [subject for subject in SUBJECTS if subject.order.value == "micros"]
REAL = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}


def key_text(schema: TableSchema, values: Sequence[Any]) -> str:
    """The key as JSON, as `query` prints it."""
    pairs = zip(schema.row_key, values, strict=False)
    return "{" + ", ".join(f"{quote(column.name)}: {to_json(column.type, value)}" for column, value in pairs) + "}"


def keys_of(schema: TableSchema, facts: Sequence[Fact], rng: Random, *, count: int) -> Iterator[str]:
    """Some rows, each once by rule K1, then a partition; of JSON's one NaN there are several."""
    rows = {row_bytes(schema, f.partition, f.clustering): f for f in facts if f.kind is FactKind.ROW}
    named = [(key_text(schema, fact.partition + fact.clustering), fact) for fact in rows.values()]
    named = [(text, fact) for text, fact in named if ErasedKey.parse(schema, text).is_about(fact)]
    chosen = rng.sample(named, count + 1)
    yield from (text for text, _ in chosen[:count])
    yield key_text(schema, chosen[count][1].partition)


def check(table: Table, engine: Engine, left: Sequence[Fact], *, now: int) -> None:
    """Hybrid view and raw against the oracle, and raw's facts one by one."""
    expected = [canonical_row(row) for row in latest_rows(table.schema, left, now=now)]
    sources = sources_of(table.raw, table.state_location)
    assert sources is not None, "the state must not need to be built anew"
    for given in (sources, None):
        found = [canonical_row(row) for row in read_rows(engine, table.raw, as_of=now, sources=given)]
        assert found == expected, "state and tail" if given else "raw"
    stored = facts_of(table.raw.relation, DeltaTable(table.raw.location).to_pyarrow_table())
    assert sorted(map(repr, stored)) == sorted(map(repr, left)), "no other fact is lost, changed or doubled"


@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, KEYS), ids=lambda s: s.name)
def test_the_other_keys_show_what_they_showed(
    duckdb_engine: Engine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = project_of(subject.schema, subject.order.value)
    facts, rng = list(histories(subject, cases=max(4, CASES // 20), seed=SEED).facts), Random(SEED)
    cuts = [0, len(facts) // 2, 3 * len(facts) // 4, len(facts)]
    for begin, end in pairwise(cuts):
        add(table, facts[begin:end])
        if end < len(facts):
            materialize(duckdb_engine, table.raw, table.state_location)
    left = list(table_facts(table))
    for key in keys_of(subject.schema, facts, rng, count=1):
        erased = ErasedKey.parse(subject.schema, key)
        done = table.forget(key)
        assert done.is_done, (key, done.proof)
        left = [fact for fact in left if not erased.is_about(fact)]
        check(table, duckdb_engine, left, now=NOW)
        assert materialize(duckdb_engine, table.raw, table.state_location).is_full is False
        check_never_back(table, erased, facts)


def table_facts(table: Table) -> Iterator[Fact]:
    return facts_of(table.raw.relation, DeltaTable(table.raw.location).to_pyarrow_table())


def check_never_back(table: Table, erased: ErasedKey, facts: Sequence[Fact]) -> None:
    """All facts landed again: those of the key, and no others, are held back."""
    known: Denylist = forgotten_of(table)
    mine = [fact for fact in facts if erased.is_about(fact)]
    others = [fact for fact in facts if known.over(table.schema, fact) is None]
    assert mine, "the history has the key"
    for fact in mine:
        assert (
            without_forgotten(known, table.format, [fact], schema=table.schema, event=SourceLine("{}"), now=NOW * 1_000_000)[0]
            == []
        )
    assert {id(fact) for fact in mine} & {id(fact) for fact in others} == set()


@pytest.mark.parametrize("name", often(REAL, "names3"))
def test_of_real_events_a_row_and_a_partition_are_forgotten(
    duckdb_engine: Engine, cassandra_cases: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = cassandra_cases / name
    schema = read_schema(folder / "schema.cql", table=REAL[name])
    table = project_of(schema)
    clock = json.loads((folder / "expected_late.json").read_text("utf-8"))["as_of"]
    for n in (1, 2, 3):
        assert table.land(folder / f"node{n}.jsonl").quarantined == 0
        if n < 3:
            materialize(duckdb_engine, table.raw, table.state_location)
    left = list(table_facts(table))
    for key in list(keys_of(schema, left, Random(SEED), count=1)):
        erased = ErasedKey.parse(schema, key)
        done = table.forget(key)
        assert done.is_done, (key, done.proof)
        left = [fact for fact in left if not erased.is_about(fact)]
        check(table, duckdb_engine, left, now=clock)
    again = Path("again.jsonl")
    lines = (folder / "node1.jsonl").read_text("utf-8").splitlines()
    again.write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    report = table.land(again)
    assert (report.quarantined, report.forgotten > 0) == (0, True)
    expected = [canonical_row(row) for row in latest_rows(schema, left, now=clock)]
    assert [canonical_row(row) for row in read_rows(duckdb_engine, table.raw, as_of=clock)] == expected


FAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "rows of the whole partition go": lambda key, rows: rows.slice(0, 0),
    "nothing goes": lambda key, rows: rows,
}


@pytest.mark.parametrize("how", FAULTS)
def test_the_check_can_fail(duckdb_engine: Engine, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subject = MICROS[0]
    table = project_of(subject.schema)
    facts = list(histories(subject, cases=5, seed=SEED).facts)
    add(table, facts)
    materialize(duckdb_engine, table.raw, table.state_location)
    monkeypatch.setattr(forgetting, "without", FAULTS[how])
    key = next(keys_of(subject.schema, facts, Random(SEED), count=1))
    erased = ErasedKey.parse(subject.schema, key)
    done = table.forget(key)
    left = [fact for fact in facts if not erased.is_about(fact)]
    with pytest.raises(AssertionError):
        check_done(done, table, duckdb_engine, left)


def check_done(done: forgetting.Erasure, table: Table, engine: Engine, left: Sequence[Fact]) -> None:
    assert done.is_done
    check(table, engine, left, now=NOW)
