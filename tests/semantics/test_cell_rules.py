"""Rules C1 to C5, one by one: the oracle, and DuckDB by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from helpers.histories import MAX_SECONDS, NOW
from helpers.reading import canonical
from helpers.schemas import INT, TEXT, scalar, table
from helpers.values import GREATEST, LEAST, NAN
from helpers.writing import Writer

from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.cells import Cell, deciding_rule
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind

Shown = Callable[..., list[dict[str, Any]]]

T = table("t", partition={"k": INT}, regulars={"v": INT, "w": TEXT})
WRITE = Writer(T)
MARKER = WRITE.insert(1, at=0)


def the_winner(shown: Shown, *cells: Cell, now: int = NOW, kind: LogicalType = INT) -> Any:
    """Return the value of a column after cells of one place, whatever the order they come in."""
    schema = table("t", partition={"k": INT}, regulars={"v": kind})
    facts = [Fact(FactKind.ROW, (1,), cells={"v": cell}) for cell in cells]
    marker = Writer(schema).insert(1, at=LEAST)
    (row,) = shown(schema, marker, *facts, now=now)
    (again,) = shown(schema, *reversed(facts), marker, now=now)
    assert canonical(row["v"]) == canonical(again["v"])
    return row["v"]


def live(written: int, value: Any, kind: LogicalType = INT) -> Cell:
    return Cell(written, value, serialize(kind, value))


def expiring(written: int, value: Any, *, ttl: int, until: int) -> Cell:
    return Cell(written, value, serialize(INT, value), ttl, until)


def tombstone(written: int, *, deleted_at: int = NOW) -> Cell:
    return Cell(written, deleted_at=deleted_at)


# C1


def test_a_tombstone_has_neither_value_nor_expiry() -> None:
    with pytest.raises(ValueError, match="tombstone"):
        Cell(1, value=1, deleted_at=NOW)
    with pytest.raises(ValueError, match="tombstone"):
        Cell(1, ttl=1, expires_at=NOW, deleted_at=NOW)


def test_ttl_and_expiry_come_together() -> None:
    with pytest.raises(ValueError, match="together"):
        Cell(1, value=1, ttl=1)


def test_a_cell_that_is_no_tombstone_has_a_value() -> None:
    with pytest.raises(ValueError, match="has a value"):
        Cell(1)


# C2


def test_the_larger_write_time_wins(shown: Shown) -> None:
    assert the_winner(shown, live(1, 9), live(2, 1)) == 1


def test_the_larger_write_time_wins_over_a_tombstone_and_an_expiry(shown: Shown) -> None:
    assert the_winner(shown, tombstone(1), expiring(1, 5, ttl=1, until=MAX_SECONDS), live(2, 1)) == 1


@pytest.mark.parametrize("now", [NOW, NOW + 9, NOW + 10])
def test_an_expiring_cell_beats_a_live_one_of_the_same_write_time_even_before_it_expires(shown: Shown, now: int) -> None:
    expected = 1 if now < NOW + 10 else None
    assert the_winner(shown, live(1, 9), expiring(1, 1, ttl=5, until=NOW + 10), now=now) == expected


def test_a_tombstone_wins_a_tie_with_a_live_cell(shown: Shown) -> None:
    assert the_winner(shown, live(1, 9), tombstone(1, deleted_at=0)) is None


def test_a_tombstone_wins_a_tie_with_an_expiring_cell_that_expires_later(shown: Shown) -> None:
    assert the_winner(shown, expiring(1, 9, ttl=1, until=MAX_SECONDS), tombstone(1, deleted_at=0)) is None


def test_of_two_expiring_cells_the_later_expiry_wins(shown: Shown) -> None:
    assert the_winner(shown, expiring(1, 1, ttl=9, until=NOW + 2), expiring(1, 9, ttl=1, until=NOW + 1)) == 1


def test_of_two_equal_expiries_the_smaller_ttl_wins(shown: Shown) -> None:
    assert the_winner(shown, expiring(1, 1, ttl=1, until=NOW + 1), expiring(1, 9, ttl=2, until=NOW + 1)) == 1


def test_of_two_equal_expiries_and_ttls_the_larger_value_wins(shown: Shown) -> None:
    assert the_winner(shown, expiring(1, 1, ttl=1, until=NOW + 1), expiring(1, 9, ttl=1, until=NOW + 1)) == 9


@pytest.mark.parametrize(
    ("winner", "loser", "rule"),
    [
        (live(2, 1), live(1, 9), "C2.1"),
        (expiring(1, 1, ttl=1, until=1), live(1, 9), "C2.2"),
        (tombstone(1, deleted_at=0), expiring(1, 9, ttl=1, until=9), "C2.3"),
        (tombstone(1, deleted_at=2), tombstone(1, deleted_at=1), "C2.4"),
        (expiring(1, 1, ttl=1, until=9), expiring(1, 9, ttl=2, until=9), "C2.5"),
        (live(1, -1), live(1, 1), "C2.6"),
        (live(1, 1), live(1, 1), "copy"),
    ],
)
def test_the_rule_that_decided_has_a_name(winner: Cell, loser: Cell, rule: str) -> None:
    assert deciding_rule(winner, loser) == rule


def test_write_times_may_be_the_least_and_the_greatest_there_are(shown: Shown) -> None:
    assert the_winner(shown, live(LEAST, 9), live(GREATEST, 1)) == 1
    assert the_winner(shown, live(LEAST, 9), live(-1, 1), live(LEAST + 1, 8)) == 1
    assert the_winner(shown, live(GREATEST, 9), tombstone(GREATEST)) is None


# C3: winners by the serialized bytes, unsigned, in ascending order

UUIDS = [UUID(int=0), UUID(int=1 << 127), UUID(int=(1 << 128) - 1)]
PAIR = Udt("tests", "pair", (("a", INT), ("b", TEXT)))
ASCENDING: list[tuple[LogicalType, list[Any]]] = [
    *((scalar(k), [0, 1, 127, -128, -1]) for k in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)),
    (scalar(Kind.TINYINT), [EMPTY, 0, -1]),
    (scalar(Kind.BIGINT), [EMPTY, 0, GREATEST, LEAST, -1]),
    (scalar(Kind.TIMESTAMP), [0, GREATEST, LEAST, -1]),
    (scalar(Kind.TIME), [0, 1, 86_399_999_999_999]),
    (scalar(Kind.DATE), [-(1 << 31), -1, 0, 1, (1 << 31) - 1]),
    (scalar(Kind.DOUBLE), [EMPTY, 0.0, 5e-324, 1.0, 1e300, float("inf"), NAN, -0.0, -1.0, -1e300, float("-inf")]),
    (scalar(Kind.FLOAT), [EMPTY, 0.0, 1.5, float("inf"), NAN, -0.0, -1.5, float("-inf")]),
    (scalar(Kind.BOOLEAN), [EMPTY, False, True]),
    (scalar(Kind.TEXT), ["", "B", "a", "aa", "é", "\uffff", "\U0001f600"]),
    (scalar(Kind.BLOB), [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
    (scalar(Kind.UUID), [EMPTY, *UUIDS]),
    (scalar(Kind.INET), [EMPTY, "0:0:0:0:0:0:0:1", "9.0.0.1", "10.0.0.1", "200.0.0.1", "fe80:0:0:0:0:0:0:1"]),
    (scalar(Kind.VARINT), [EMPTY, 0, 128, 1, 127, 127 * 256, -128, -1, -129]),
    (scalar(Kind.DECIMAL), [EMPTY, Decimal("10"), Decimal("1.0"), Decimal("-1.0"), Decimal("1.00"), Decimal("1E+1")]),
    (scalar(Kind.DURATION), [EMPTY, (0, 0, 0), (0, 0, 1), (0, 1, 0), (-1, 0, 0), (1, 0, 0)]),
    (ListOf(INT), [EMPTY, (), (0,), (-1,), (0, 0)]),
    (SetOf(TEXT), [(), ("b",), ("", "a"), ("a", "b")]),
    (MapOf(INT, TEXT), [(), ((1, "b"),), ((1, "a"), (2, "a"))]),
    (TupleOf((INT, TEXT)), [EMPTY, (1, "a"), (1, "b"), (-1, ""), (None, "a")]),
    (PAIR, [(1, "a"), (-1, ""), (None, "a")]),
    (VectorOf(scalar(Kind.FLOAT), 2), [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-1.0, 0.0)]),
]


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=lambda v: str(v) if isinstance(v, LogicalType) else None)
def test_values_tie_by_their_serialized_bytes(shown: Shown, kind: LogicalType, values: list[Any]) -> None:
    """Each row has two neighbours as cells of one write time: the larger one shows."""
    assert [serialize(kind, v) for v in values] == sorted(serialize(kind, v) for v in values)
    schema = table("t", partition={"k": INT}, regulars={"v": kind})
    facts = [Writer(schema).insert(k, at=1, v=value) for k, pair in enumerate(pairwise(values)) for value in pair]
    for order in (facts, facts[::-1]):
        assert [canonical(row["v"]) for row in shown(schema, *order)] == [canonical(value) for value in values[1:]]


# C4


@pytest.mark.parametrize(("now", "value"), [(NOW - 1, 7), (NOW, None), (NOW + 1, None)])
def test_a_cell_is_expired_exactly_when_now_reaches_its_expiry(shown: Shown, now: int, value: int | None) -> None:
    assert the_winner(shown, expiring(1, 7, ttl=1, until=NOW), now=now) == value


def test_an_expired_winner_still_hides_older_values(shown: Shown) -> None:
    assert the_winner(shown, live(1, 7), expiring(2, 8, ttl=1, until=NOW)) is None


def test_a_deleted_winner_still_hides_older_values(shown: Shown) -> None:
    (row,) = shown(T, MARKER, WRITE.update(1, at=1, v=7), WRITE.update(1, at=2, v=None))
    assert row == {"k": 1, "v": None, "w": None}


def test_a_winner_that_a_row_deletion_covers_hides_nothing_newer(shown: Shown) -> None:
    (row,) = shown(T, WRITE.update(1, at=3, v=7), WRITE.update(1, at=2, v=8), WRITE.delete(1, at=2))
    assert row == {"k": 1, "v": 7, "w": None}


@pytest.mark.parametrize("expiry", [0, 1, MAX_SECONDS - 1, MAX_SECONDS])
def test_expiries_at_the_ends_of_their_range_are_exact(shown: Shown, expiry: int) -> None:
    assert the_winner(shown, expiring(1, 7, ttl=1, until=expiry), now=max(expiry - 1, 0)) == (7 if expiry else None)
    assert the_winner(shown, expiring(1, 7, ttl=1, until=expiry), now=expiry) is None


@pytest.mark.parametrize("now", [-1, 0, (1 << 32) + 1, 1 << 42, -(1 << 42)])
def test_instants_outside_the_range_of_expiries_are_exact(shown: Shown, now: int) -> None:
    assert the_winner(shown, live(1, 7), now=now) == 7
    assert the_winner(shown, expiring(1, 7, ttl=1, until=NOW), now=now) == (7 if now < NOW else None)


# C5


def test_a_column_that_a_statement_did_not_name_keeps_its_value(shown: Shown) -> None:
    (row,) = shown(T, WRITE.insert(1, at=1, v=7, w="a"), WRITE.update(1, at=2, w="b"))
    assert row == {"k": 1, "v": 7, "w": "b"}


def test_a_column_set_to_null_loses_its_value(shown: Shown) -> None:
    (row,) = shown(T, WRITE.insert(1, at=1, v=7, w="a"), WRITE.update(1, at=2, v=None, w="b"))
    assert row == {"k": 1, "v": None, "w": "b"}


# values of 0 bytes


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.COUNTER])
def test_a_value_of_0_bytes_is_not_null_and_loses_any_tie(shown: Shown, kind: Kind) -> None:
    empty = {Kind.TEXT: "", Kind.ASCII: "", Kind.JSON: "", Kind.BLOB: b""}.get(kind, EMPTY)
    live_one, expiring_one = Cell(1, empty, b""), Cell(1, empty, b"", 1, NOW + 1)
    schema = table("t", partition={"k": INT}, regulars={"v": Scalar(kind)})
    places = ([live_one], [expiring_one], [live_one, expiring_one], [live_one, tombstone(1)], [expiring_one, tombstone(1)])
    facts = [Fact(FactKind.ROW, (k,), cells={"v": cell}) for k, cells in enumerate(places) for cell in cells]
    markers = [Writer(schema).insert(k, at=0) for k in range(len(places))]
    assert [row["v"] for row in shown(schema, *facts, *markers)] == [empty, empty, empty, None, None]
    assert [row["v"] for row in shown(schema, *facts, *markers, now=NOW + 1)] == [empty, None, None, None, None]


def test_a_row_with_only_a_value_of_0_bytes_exists(shown: Shown) -> None:
    assert shown(T, WRITE.update(1, at=1, v=EMPTY)) == [{"k": 1, "v": EMPTY, "w": None}]
    assert shown(T, WRITE.update(1, at=1, w="")) == [{"k": 1, "v": None, "w": ""}]
