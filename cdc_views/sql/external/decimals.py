"""Decimals of events as the DECIMAL that a view shows, so that no text of them is needed: numbers, and base64 in JSON.

Debezium writes a decimal in JSON as base64 of the unscaled number, big-endian two's complement (mode `precise`).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from cdc_views.formats.connect.hints import Decimals, Hints
from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.plan.documents import MOST_BYTES, AsDecimal, Failure, HexOfBase64, Physical, Unscaled
from cdc_views.plan.expr import Call, Case, Expr, Lit, Op, either, equal, is_null
from cdc_views.sql.external.values import Found

_TOO_LONG = "a number does not fit decimal({}, {}): update the schema file"
_MOST_DIGITS = 38
"""Of a DECIMAL, on every engine; the product of two has as many digits as both, and one more on Spark."""
_LARGEST = (1 << (8 * MOST_BYTES - 1)) - 1


def unscaled(column: LogicalType, found: Found, shown: LogicalType, hints: Hints) -> Found:
    """Return a found base64 as hex digits, which are short to read from; any other value as it is.

    The project file says that decimals are base64, and the view shows the scale that they have.
    """
    is_base64 = hints.decimals is Decimals.PRECISE and found.is_text
    if not is_base64 or not isinstance(column, Scalar) or column.kind is not Kind.DECIMAL:
        return found
    size = shown.decimal_size if isinstance(shown, Scalar) else None
    if size is None or size[1] != hints.scale_of(column) or 10 ** size[0] > _LARGEST or size[0] + size[1] + 2 > _MOST_DIGITS:
        return found
    return replace(found, value=HexOfBase64(found.text), is_unscaled=True)


def is_exact_number(found: Found, shown: LogicalType) -> bool:
    """Whether a found value is a number that a view shows as DECIMAL, so that no text of it is needed."""
    is_sized = isinstance(shown, Scalar) and shown.decimal_size is not None
    return is_sized and (found.is_unscaled or found.is_of(pa.types.is_decimal))


def shown_number(found: Found, shown: LogicalType) -> Expr:
    """Return a found number in the DECIMAL that a view shows; fails for one that has more digits."""
    assert isinstance(shown, Scalar)
    assert shown.decimal_size is not None
    precision, scale = shown.decimal_size
    if found.is_unscaled:
        whole = AsDecimal(Unscaled(found.value, precision), precision, 0)
        # a product of decimals is exact, a quotient is not on every engine
        unit = AsDecimal(Lit(f"0.{'1':0>{scale}}"), scale + 1, scale)
        return AsDecimal(Call(Op.MUL, (whole, unit)), precision, scale) if scale else whole
    assert found.kind is not None
    number = AsDecimal(found.value, precision, scale)
    if found.kind.scale <= scale and found.kind.precision - found.kind.scale <= precision - scale:
        return number
    # a cast rounds digits after the point, and fails for too many before it
    fits = either(is_null(found.value), equal(number, found.value))
    return Case(((fits, number),), Failure(_TOO_LONG.format(precision, scale), Physical.DECIMAL))
