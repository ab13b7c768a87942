"""Where work on tables runs: in threads, few at once, and of each table one at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from cdc_views.model.extras import needs

with needs("`ui`", extra="ui"):
    from anyio import to_thread


_T = TypeVar("_T")
AT_ONCE = 3
"""Reads of engines at a time, so that memory is bounded by as many queries."""


class EngineRoom:
    """Runs reads. Two requests for one table wait for each other: engines and adapted tables are not shared between threads."""

    def __init__(self) -> None:
        self._tables: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._room = asyncio.Semaphore(AT_ONCE)

    async def read(self, table: str, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, which reads a table by an engine."""
        async with self._tables[table], self._room:
            return await to_thread.run_sync(work)

    async def look(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, which reads logs and records alone."""
        return await to_thread.run_sync(work)
