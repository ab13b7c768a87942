"""Parquet files that are gone or damaged, said in words: which, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from cdc_views.errors import EngineError
from cdc_views.plan.compact import PART

_OF_STATE = "build the state anew with `materialize --full`"
_OF_RAW = "restore this file of the raw table"


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Raise `EngineError` where Arrow cannot read `file`, of a state or of a raw table, in this block.

    A damaged footer is an `OSError` to Arrow, as a disk that fails is.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        remedy = _OF_STATE if f"/{PART}=" in file else _OF_RAW
        raise EngineError(f"{file} is gone or damaged; {remedy}; `cdc-views validate` names all such files") from error
