"""An upper bound of the write times in a state's base and overlay. With it reads can tell that all newer facts beat them.

It is recorded in the state's log before a base or an overlay is committed, and it never falls. A run that is killed between
the two, or overtaken, leaves a bound that is too high, which only makes reads slower.
"""

from __future__ import annotations

from deltalake import DeltaTable

from cdc_views.landing.delta import open_delta, record, recorded
from cdc_views.storage.conflicts import ConflictError

_DIGITS = 3
_DIGIT_BITS = 62
"""A transaction's number has 64 bits with its sign; a log position has twice as many (rule S2)."""


def _settled_name(transaction: str, digit: int) -> str:
    """Return the transaction id of one digit of the bound of the state whose commits record `transaction`."""
    return f"{transaction}:settled:{digit}"


def settled_of(table: DeltaTable, transaction: str) -> int | None:
    """Return the bound at the open version of the state; None if none was recorded."""
    digits = [recorded(table, _settled_name(transaction, digit)) for digit in range(_DIGITS)]
    known = [digit << (_DIGIT_BITS * number) for number, digit in enumerate(digits) if digit is not None]
    return sum(known) if len(known) == _DIGITS else None


def record_settled(location: str, version: int, transaction: str, newest: int) -> int:
    """Record in the state at `version` that base and overlay hold nothing newer than `newest`; return the version with it.

    Raises `ConflictError` if somebody else committed since `version`: the files to replace may have changed.
    """
    table = open_delta(location, version=version)
    before, bound = settled_of(table, transaction), max(newest, 0)
    if before is not None and before >= bound:
        return version
    numbers = {
        _settled_name(transaction, digit): (bound >> (_DIGIT_BITS * digit)) % (1 << _DIGIT_BITS) for digit in range(_DIGITS)
    }
    record(table, numbers)
    if table.version() != version + 1:
        raise ConflictError(f"{location}: another run committed first")
    return version + 1
