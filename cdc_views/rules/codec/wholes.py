"""Whole numbers of any length as texts: Python itself converts at most 4,300 digits, and longer ones in quadratic time."""

from __future__ import annotations

from decimal import Decimal

MOST_DIGITS = 100_000  # the digits of the longest number that is read; Cassandra limits a varint only by the size of a mutation
_AT_ONCE = 4_000
_SCALES = range(-(1 << 31) + 1, (1 << 31))  # exponents of decimals: Cassandra keeps the scale (minus exponent) in 32 bits


def whole_of(text: str) -> int:
    """Return the whole number of digits after an optional sign; raises `ValueError` for more than `MOST_DIGITS`.

    >>> whole_of("-" + "9" * 5_000) == 1 - 10**5_000
    True
    """
    if len(text) <= _AT_ONCE:
        return int(text)
    digits = text.lstrip("+-")
    if len(text) - len(digits) > 1 or not (digits.isascii() and digits.isdigit()):
        raise ValueError("digits were expected")
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has more than {MOST_DIGITS:,} digits, the most that are read")
    return -_joined(digits) if text[0] == "-" else _joined(digits)


def digits_of(value: int) -> str:
    """Return the digits of a whole number, after a minus sign if it is below 0.

    >>> digits_of(-(10**5_000)) == "-1" + "0" * 5_000
    True
    """
    # a decimal has no limit, and prints a whole number without an exponent
    return str(value) if value.bit_length() < 3 * _AT_ONCE else str(Decimal(value))


def whole_of_decimal(value: Decimal) -> int:
    """Return a decimal as a whole number; raises `ValueError` for a fraction or too many digits: a number with an exponent may
    have 4,000 digits only, because `1e99999` is short, but its digits are not.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("a number was expected")
    if value.adjusted() >= _AT_ONCE and exponent > 0:
        raise ValueError(f"it has more than {_AT_ONCE:,} digits, the most that are read of what is written with an exponent")
    if exponent < 0:
        if any(digits[exponent:]):
            raise ValueError("a whole number was expected")
        digits, exponent = digits[:exponent], 0
    whole = whole_of("".join(map(str, digits)) or "0") * int(10**exponent)
    return -whole if sign else whole


def check_exponent(value: Decimal) -> Decimal:
    """Return the decimal; raises `ValueError` for an exponent that Cassandra cannot store."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent not in _SCALES:
        raise ValueError(f"its exponent, {exponent}, does not fit 32 bits, in which Cassandra keeps it")
    return value


def _joined(digits: str) -> int:
    if len(digits) <= _AT_ONCE:
        return int(digits)
    low = len(digits) // 2
    return _joined(digits[:-low]) * int(10**low) + _joined(digits[-low:])
