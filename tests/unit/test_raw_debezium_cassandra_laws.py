"""Laws of `debezium-cassandra`: order and repetition do not matter, and whatever is damaged is malformed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from helpers.debezium_cassandra_samples import KV, NOW, SAMPLES, D, decode, event_of, schema_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import SourceLine
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows

LINES = [(json.dumps(e, default=float), schema_of(n)) for n, s in SAMPLES.items() for e in s["debezium_events"]]
OF_D = [line for line, schema in LINES if schema is D]


@settings(max_examples=40, deadline=None)
@given(st.permutations(OF_D), st.lists(st.sampled_from(OF_D), max_size=8))
def test_any_order_and_any_repetition_give_the_same_rows(order: list[str], again: list[str]) -> None:
    def facts(lines: list[str]) -> list[Fact]:
        return [fact for line in lines for fact in DebeziumCassandra().decode(SourceLine(line), D)]

    assert latest_rows(D, facts([*order, *again]), now=NOW) == latest_rows(D, facts(OF_D), now=NOW)


JUNK = st.sampled_from(
    [None, True, -1, 0, 1 << 70, 1.5, "", "x", "\ud800", [], {}, [None], {"a": 1}, [[1]], "1e999999999", "None"]
)


@settings(max_examples=6 * settings().max_examples, deadline=None)
@given(st.sampled_from(LINES), st.randoms(use_true_random=False), st.booleans(), JUNK)
def test_a_damaged_event_decodes_or_is_malformed(line: tuple[str, TableSchema], at: random.Random, drop: bool, junk: Any) -> None:
    document = json.loads(line[0])
    _damage(document, at, drop=drop, junk=junk)
    try:
        facts = DebeziumCassandra().decode(SourceLine(json.dumps(document)), line[1])
    except MalformedEventError:
        return
    assert facts == DebeziumCassandra().decode(SourceLine(json.dumps(document)), line[1])
    latest_rows(line[1], facts, now=NOW)


def _damage(document: Any, at: random.Random, *, drop: bool, junk: Any) -> None:
    """Walk down a random path and drop or replace what is there."""
    parent, key = document, at.choice(sorted(document))
    while isinstance(parent[key], dict | list) and parent[key] and at.random() < 0.8:
        parent = parent[key]
        key = at.choice(sorted(parent)) if isinstance(parent, dict) else at.randrange(len(parent))
    if drop:
        del parent[key]
    else:
        parent[key] = junk


@pytest.mark.parametrize("text", ["", "null", "1", '"x"', "[]", "{}", "{", '{"key":1,"value":[]}', '{"value":{}}', "NaN"])
def test_what_is_no_event_is_malformed(text: str) -> None:
    if text == "null":
        assert DebeziumCassandra().decode(SourceLine(text), D) == []
        return
    with pytest.raises(MalformedEventError):
        DebeziumCassandra().decode(SourceLine(text), D)


def test_an_event_of_another_table_names_both() -> None:
    with pytest.raises(MalformedEventError, match=r"ks\.d, where ks\.kv2"):
        decode(event_of("insert"), KV)


def test_an_unknown_column_is_malformed_with_a_suggestion() -> None:
    event = event_of("insert")
    event["value"]["after"]["bigg"] = {"value": 1, "set": True}
    with pytest.raises(MalformedEventError, match="did you mean 'big'"):
        decode(event)
