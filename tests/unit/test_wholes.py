"""Whole numbers and decimals of any size: landed exactly, or refused with a reason in the field's words."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc_views.api import Project
from cdc_views.errors import MalformedEventError
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.scalars import integer_value
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsonread import from_json, parse_json
from cdc_views.rules.codec.serialized import deserialize, serialize
from cdc_views.rules.codec.wholes import MOST_DIGITS, digits_of, whole_of

_LENGTHS = (1, 3_999, 4_000, 4_001, 4_300, 4_301, 8_001, 12_345, MOST_DIGITS)


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_whole_number_is_the_same_as_a_text_and_back(length: int, sign: str) -> None:
    for digits in ("9" * length, "1" + "0" * (length - 1), ("1203" * length)[:length]):
        value = whole_of(sign + digits)
        assert digits_of(value) == sign + digits
        assert value % 1_000_003 == _remainder(sign, digits)


def _remainder(sign: str, digits: str) -> int:
    """What is left of dividing by 1,000,003, digit by digit."""
    left = 0
    for digit in digits:
        left = (left * 10 + int(digit)) % 1_000_003
    return -left % 1_000_003 if sign else left


@pytest.mark.parametrize("text", ["", "x", "1_0" * 2_000, "+-" + "1" * 5_000, "1" * 4_999 + "x", "٣" * 5_000])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        whole_of(text)


def test_a_long_varint_is_read_and_serialized_as_cassandra_does() -> None:
    digits = "-" + "7" * 9_999
    value = from_json(Scalar(Kind.VARINT), parse_json(digits))
    assert digits_of(value) == digits
    assert deserialize(Scalar(Kind.VARINT), serialize(Scalar(Kind.VARINT), value)) == value
    assert integer_value(Kind.VARINT, digits, Hints()) == value
    number = from_json(Scalar(Kind.DECIMAL), parse_json(f"{digits}.5"))
    assert deserialize(Scalar(Kind.DECIMAL), serialize(Scalar(Kind.DECIMAL), number)) == number


@pytest.mark.parametrize("exponent", [(1 << 31) - 1, -(1 << 31) + 1])
def test_a_decimal_may_have_any_scale_of_cassandra_s(exponent: int) -> None:
    number = from_json(Scalar(Kind.DECIMAL), parse_json(f"15e{exponent}"))
    assert number.as_tuple() == (0, (1, 5), exponent)
    assert deserialize(Scalar(Kind.DECIMAL), serialize(Scalar(Kind.DECIMAL), number)).as_tuple() == number.as_tuple()


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (Kind.VARINT, "9" * (MOST_DIGITS + 1), "more than 100,000 digits, the most that are read"),
        (Kind.VARINT, "1e999999999", "more than 4,000 digits, the most that are read of what is written with an exponent"),
        (Kind.INT, "1e999999999", "more than 4,000 digits"),
        (Kind.BIGINT, "9" * 5_000, "does not fit 64 bits"),
        (Kind.VARINT, "1.5", "a whole number was expected"),
        (Kind.DECIMAL, f"1e{1 << 31}", "its exponent, 2147483648, does not fit 32 bits"),
        (Kind.DECIMAL, f"1e-{1 << 31}", "does not fit 32 bits"),
        (Kind.DECIMAL, "1e99999999999999999999999", "the exponent of 1e99999999999999999999999 is beyond all that is read"),
    ],
)
def test_a_number_that_is_too_large_has_a_reason(kind: Kind, text: str, reason: str) -> None:
    with pytest.raises(MalformedEventError) as refused:
        from_json(Scalar(kind), parse_json(text))
    assert reason in str(refused.value)
    assert "format requires" not in str(refused.value)
    assert "sys.set_int_max_str_digits" not in str(refused.value)


def _mutation(number: int, column: str, value: str) -> str:
    cell: dict[str, Any] = {"column": column, "written": 1, "value": "@"}
    row = {"kind": "row", "clustering": {}, "liveness": {"written": 1}, "cells": [cell]}
    place = {"node": "n1", "segment": 1, "position": number, "keyspace": "k", "table": "t", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [row]}).replace('"@"', value)


def test_long_numbers_land_and_show_exactly(tmp_path: Path) -> None:
    long = "-" + "3" * 6_000
    (tmp_path / "s.cql").write_text("CREATE TABLE k.t (id int PRIMARY KEY, v varint, d decimal);")
    (tmp_path / "p.yml").write_text(
        "name: p\nengine: duckdb\ntables:\n  - {name: k.t, schema: s.cql, raw: {format: cassandra-mutation}}\n"
    )
    values = [("v", long), ("d", "1e2147483647"), ("d", f"{long}.5"), ("d", "1e-3000000000")]
    lines = [_mutation(number, *value) + "\n" for number, value in enumerate(values, 1)]
    (tmp_path / "e.jsonl").write_text("".join(lines))
    table = Project.load(tmp_path / "p.yml").table("k.t")
    report = table.land(tmp_path / "e.jsonl")
    assert report.quarantined == 1
    shown = {row["id"]: row for row in table.query(as_of=10).rows()}
    assert digits_of(shown[1]["v"]) == long
    assert (shown[2]["d"], shown[3]["d"]) == (Decimal("1e2147483647"), Decimal(f"{long}.5"))
