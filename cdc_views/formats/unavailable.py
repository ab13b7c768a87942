"""Debezium's mark for values that it did not send."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

MARK = b"__debezium_unavailable_value"


MARKS = frozenset(  # the texts that mark a value that was not sent
    {
        MARK.decode(),
        base64.b64encode(MARK).decode(),
        base64.urlsafe_b64encode(MARK).decode(),
        MARK.hex(),
        f"0x{MARK.hex()}",
        # Java's `UUID.nameUUIDFromBytes`: MD5 without a namespace
        str(uuid.UUID(bytes=hashlib.md5(MARK, usedforsecurity=False).digest(), version=3)),
        f'{{"{MARK.decode()}":"{MARK.decode()}"}}',
    }
)


def is_unavailable(value: Any) -> bool:
    """Whether a value is Debezium's `__debezium_unavailable_value`: not sent, so absent and not null (rule S4).

    The mark has the column's shape: text, base64 or hex, an array of one of these, an array of its bytes as integers, an
    array of one UUID made from it, a map from itself to itself.

    Source: Debezium 3.6, `connector.postgresql.UnchangedToastedPlaceholder`, read as a description.
    """
    if isinstance(value, str):
        return value in MARKS
    if isinstance(value, list):
        return value == list(MARK) or (len(value) == 1 and isinstance(value[0], str) and value[0] in MARKS)
    return isinstance(value, dict) and value == {MARK.decode(): MARK.decode()}
