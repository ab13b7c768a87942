"""The commit of decoded events, where keys may be forgotten at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import EngineError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import append
from cdc_views.storage.conflicts import ConflictError


def commit(
    table: DeltaTable,
    rows: pa.Table,
    *,
    transactions: Mapping[str, int],
    decoder: Decoder,
    source: str,
    check_forgotten: Callable[[], None],
) -> None:
    """Append rows that `decoder` made of `source`, with `transactions`, in one commit.

    `check_forgotten` raises where a key of the rows was forgotten since they were decoded.

    Raises:
        ConflictError: Somebody else committed first, or keys were forgotten meanwhile; nothing was written.
    """
    if not decoder.is_current():
        raise ConflictError(f"{source}: keys were forgotten while it landed; run it again")
    try:
        append(table, rows, transactions=transactions)
    except EngineError as error:
        # forgetting removes the log entries that this commit was to follow
        if decoder.is_current():
            raise
        check_forgotten()
        raise ConflictError(str(error)) from error
    if not decoder.is_current():
        check_forgotten()
