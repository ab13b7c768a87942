"""Decimals of many events at once are stored as one by one."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.values import native
from cdc_views.landing import tokens
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.physical import to_physical


def numbers(rng: random.Random, scale: int) -> list[str | None]:
    """Numbers as JSON writes them, around powers of 2 and 10, some with zeros behind the point."""
    found: list[str | None] = [None]
    for _ in range(50):
        power = rng.choice((2 ** rng.randrange(56), 10 ** rng.randrange(12), rng.randrange(1, 10**9)))
        whole = power + rng.randrange(-2, 3)
        places = "".join(rng.choice("0059") for _ in range(rng.randrange(scale + 1))) + rng.choice(("", "000"))[: 6 - scale]
        found.append(f"{whole}.{places}" if places else str(whole))
    return found


def one_by_one(column: list[str | None], scale: int) -> list[tuple[str | None, bytes]]:
    kind = Scalar(Kind.DECIMAL, scale)
    found = [(None, b"") if token is None else native(kind, Decimal(token), Hints()) for token in column]
    return [(to_physical(kind, value), serialized) for value, serialized in found]


@pytest.mark.parametrize("scale", range(7))
def test_decimals_at_once_are_stored_as_one_by_one(scale: int) -> None:
    rng, taken = random.Random(scale), 0
    for _ in range(60):
        column = numbers(rng, scale)
        column = [token for token in column if token is None or len(token) < 13 - scale] if scale else column
        try:
            found = tokens._scaled(pa.array(column, pa.string()), scale)
        except tokens._FAILURES:
            continue
        taken += 1
        assert found.bytes is not None
        assert list(zip(found.values.to_pylist(), found.bytes.to_pylist(), strict=True)) == one_by_one(column, scale)
    assert taken > 10


@pytest.mark.parametrize("odd", ["-0", "-0.00", "1.234", "1234567890123456789.5"])
def test_numbers_that_would_change_are_left_to_be_read_one_by_one(odd: str) -> None:
    with pytest.raises(tokens._FAILURES):
        tokens._scaled(pa.array(["1.5", odd], pa.string()), 2)
