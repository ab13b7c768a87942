"""Rows of the captured Debezium streams, as the source showed them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

Row = dict[str, Any]

ONE: Row = {
    "id": 1, "big": 9007199254740993, "small": -7, "n": Decimal("12345.6789"), "n_unb": 10**20, "r": Decimal("1.5"),
    "d": Decimal("2.5"), "b": True, "t": "snap", "vc": "vc", "ch": "ch   ", "ts": "2024-01-02 03:04:05.123456",
    "tstz": "2024-01-02 01:04:05.123456Z", "dt": "2024-02-29", "tm": "12:34:56.789000000", "tmtz": "10:34:56Z",
    "iv": "93784000000", "j": {"a": 1}, "jb": {"b": [1, 2]}, "by": "0xdeadbeef", "ai": [1, 2, None], "at": ["x", "y,z"],
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "ip": "10.0.0.1", "mood": "ok", "toast": "TTTTTTTTTTTT...CUT", "hs": "0xaa",
}  # fmt: skip

TWO: Row = {
    **ONE, "id": 2, "n": Decimal("-0.0001"), "n_unb": Decimal("123456789012345678901234567890.123456789"), "d": None, "b": False,
    "t": 'ins ☃ "q"', "ts": "infinity", "tstz": "1969-12-31 23:59:59.999999Z", "dt": "-0043-03-15", "tm": "24:00:00.000000000",
    # the source has {{1,2},{3,4}} in `ai`: the fidelity report says that Debezium sends nulls
    "tmtz": "08:00:00Z", "iv": "-2543400000000", "j": {"a": 2}, "by": "0x00ff", "ai": [None, None], "at": [],
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12", "ip": "::1", "toast": "UUUUUUUUUUUU...CUT", "hs": "0x01",
}  # fmt: skip

THREE: Row = {**dict.fromkeys(ONE), "id": 3}

UPDATED: Row = {**TWO, "t": "upd", "n": Decimal("1.5000")}

RETOASTED: Row = {**UPDATED, "id": 22, "toast": "VVVVVVVVVVVV...CUT"}

FULL_NINE = {"id": 9, "v": "after-ddl", "toast": None, "extra": 5}


def shown(rows: list[Row]) -> list[str]:
    """Rows with each value's own form: 1.50 is not 1.5."""
    return [repr(sorted(row.items())) for row in rows]
