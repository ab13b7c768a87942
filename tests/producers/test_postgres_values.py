"""Values as PostgreSQL prints them, into the JSON that the adapter reads back exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from cdc_producers.postgres.values import TypeFacts, encoder, parse_array

from cdc_views.errors import MalformedEventError
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.values import native
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar
from cdc_views.rules.codec.jsonread import parse_json

CATALOG = {1007: TypeFacts("b", 23, 0, ","), 1009: TypeFacts("b", 25, 0, ","), 90001: TypeFacts("d", 0, 16, ",")}
SECOND = 10**9


@pytest.mark.parametrize(
    ("type_id", "kind", "text", "expected"),
    [
        (20, Scalar(Kind.BIGINT), "9007199254740993", 9007199254740993),
        (1700, Scalar(Kind.DECIMAL, 4), "1.5000", Decimal("1.5000")),
        (1700, Scalar(Kind.DECIMAL), "0.10", Decimal("0.10")),
        (1700, Scalar(Kind.DECIMAL, 0), "1234", Decimal(1234)),
        (
            1700,
            Scalar(Kind.DECIMAL),
            "123456789012345678901234567890.123456789",
            Decimal("123456789012345678901234567890.123456789"),
        ),
        (701, Scalar(Kind.DOUBLE), "-0", -0.0),
        (701, Scalar(Kind.DOUBLE), "1e-300", 1e-300),
        (16, Scalar(Kind.BOOLEAN), "t", True),
        (17, Scalar(Kind.BLOB), "\\xabcdef", bytes.fromhex("abcdef")),
        (17, Scalar(Kind.BLOB), "\\x", b""),
        (1560, Scalar(Kind.BLOB), "0000000100000010", b"\x02\x01"),
        (1114, Scalar(Kind.DATETIME), "1970-01-01 00:00:00.000001", 1),
        (1114, Scalar(Kind.DATETIME), "1971-01-01 00:00:00", 31536000 * 10**6),
        (1114, Scalar(Kind.DATETIME), "infinity", 9223372036825200000),
        (1184, Scalar(Kind.INSTANT), "1969-12-31 23:59:59.999999+00", -1),
        (1082, Scalar(Kind.DATE), "0044-03-15 BC", -735160),
        (1083, Scalar(Kind.TIME), "24:00:00", 86400 * SECOND),
        (1083, Scalar(Kind.TIME), "00:00:00.000001", 1000),
        (1266, Scalar(Kind.TEXT), "00:00:00-08", "08:00:00Z"),
        (1266, Scalar(Kind.TEXT), "23:59:59.5+05:30", "18:29:59.5Z"),
        (1186, Scalar(Kind.TEXT), "P-1M1D", "-2543400000000"),
        (1186, Scalar(Kind.TEXT), "P1DT2H3M4S", "93784000000"),
        (1186, Scalar(Kind.TEXT), "PT-0.25S", "-250000"),
        (1186, Scalar(Kind.DURATION), "P-1M1DT-2S", (-1, 1, -2 * SECOND)),
        (600, Scalar(Kind.BLOB), "(1,2)", bytes.fromhex("0101000000000000000000f03f0000000000000040")),
        (1007, ListOf(Scalar(Kind.INT)), "{1,2,NULL}", (1, 2, None)),
        (1007, ListOf(Scalar(Kind.INT)), "{{1,2},{3,4}}", (None, None)),
        (1007, ListOf(ListOf(Scalar(Kind.INT))), "{{1,2},{3,4}}", ((1, 2), (3, 4))),
        (1009, ListOf(Scalar(Kind.TEXT)), '{x,"y,z","NULL",NULL,a;b}', ("x", "y,z", "NULL", None, "a;b")),
        (90001, Scalar(Kind.BOOLEAN), "f", False),
        (90001, Scalar(Kind.TEXT), "f", "f"),
        (99999, Scalar(Kind.TEXT), 'any "thing"', 'any "thing"'),
    ],
)
def test_values_survive(type_id: int, kind: LogicalType, text: str, expected: Any) -> None:
    written = encoder(type_id, -1, catalog=CATALOG.get, wanted=kind)(text)
    found, _ = native(kind, parse_json(written), Hints(scale=None, numbers_show_scale=True))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("type_id", "kind", "text"),
    [
        *((1700, Kind.DECIMAL, text) for text in ("NaN", "Infinity", "-Infinity")),
        *((1082, Kind.DATE, text) for text in ("infinity", "-infinity")),
    ],
)
def test_what_is_no_number_or_no_day_goes_to_quarantine(type_id: int, kind: Kind, text: str) -> None:
    written = encoder(type_id, -1, catalog=CATALOG.get, wanted=Scalar(kind))(text)
    assert written == f'"{text}"'
    with pytest.raises(MalformedEventError):
        native(Scalar(kind), parse_json(written), Hints(scale=None, numbers_show_scale=True))


def test_one_bit_is_a_boolean() -> None:
    assert encoder(1560, 1, catalog={}.get, wanted=Scalar(Kind.BOOLEAN))("1") == "true"


@pytest.mark.parametrize("text", ["{1", "1}", "{1}}", "", "{1}{2}", '{"a}'])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"array|closed"):
        parse_array(text)
