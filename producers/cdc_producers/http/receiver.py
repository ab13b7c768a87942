"""A receiver: sends each event of a request to its table, and reports what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

from starlette.responses import Response

from cdc_producers.http.answers import RefusedError, answer, try_later
from cdc_producers.http.dead_letters import DeadLetters
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.http.routing import Route, Router
from cdc_producers.http.table_queue import TableQueue
from cdc_views.errors import EngineError
from cdc_views.landing.targets import ProducerLog

_NO_TABLE = ""
"""The label for events without a table."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A queue for each table, and the dead letters for events that belong to none.
    With `keeps_unknown`, an event of an unknown or unnamed table is answered 202 instead of 422; it is kept either way.
    """

    queues: Mapping[str, TableQueue]
    router: Router
    dead_letters: DeadLetters
    metrics: HttpMetrics
    log: ProducerLog
    keeps_unknown: bool

    async def take(self, contents: Sequence[bytes], *, station: str | None, path: str, headers: Mapping[str, str]) -> Response:
        """Land the events of a station; if `station` is None, of the tables that the events name. All tables land in parallel."""
        of_all = Route() if station is None else self.router.station(station)
        says_itself = of_all.table is None and not of_all.reason
        routes = [self.router.event(content, headers) if says_itself else of_all for content in contents]
        of_table: dict[str, list[int]] = {}
        for index, route in enumerate(routes):
            if route.table is not None:
                of_table.setdefault(route.table, []).append(index)
        reasons = await self._dead(contents, routes, path=path)
        for quarantined in await asyncio.gather(*(self._put(name, contents, indexes) for name, indexes in of_table.items())):
            reasons |= quarantined
        if of_all.reason and not (self.keeps_unknown and contents):
            raise RefusedError(404, f"{of_all.reason} (the events are in the receiver's dead letters)")
        unknown = next((route for route in routes if route.reason and route.is_event), None)
        if unknown is not None and not self.keeps_unknown:
            raise RefusedError(422, f"{unknown.reason} (the event is in the receiver's dead letters)")
        where = "quarantine" if not any(routes[index].reason for index in reasons) else "the dead letters"
        landed = len(contents) - len(reasons) - sum(route.is_notice for route in routes)
        return answer(dict(sorted(reasons.items())), count=len(contents), landed=landed, where=where)

    async def run(self) -> None:
        """Land events until cancelled."""
        await asyncio.gather(*(queue.run() for queue in self.queues.values()))

    def stop(self) -> None:
        """Stop holding events for a target that fails."""
        for queue in self.queues.values():
            queue.stop()

    def failing(self) -> list[str]:
        """Return the tables whose last attempt to land failed."""
        return [name for name, queue in self.queues.items() if queue.failure]

    async def _put(self, name: str, contents: Sequence[bytes], indexes: Sequence[int]) -> dict[int, str]:
        reasons = await self.queues[name].put([contents[index] for index in indexes])
        return {indexes[index]: reason for index, reason in reasons.items()}

    async def _dead(self, contents: Sequence[bytes], routes: Sequence[Route], *, path: str) -> dict[int, str]:
        """Keep the events without a table; return the reasons by index."""
        reasons: dict[int, str] = {}
        for index, route in enumerate(routes):
            if route.reason:
                await self._bury(contents[index], route, path=path)
                reasons[index] = route.reason
            elif route.is_notice:
                self.metrics.outcomes.labels(_NO_TABLE, "notice").inc()
        return reasons

    async def _bury(self, content: bytes, route: Route, *, path: str) -> None:
        keep = partial(self.dead_letters.keep, path=path, table=route.named, reason=route.reason, now=datetime.now(timezone.utc))
        try:
            is_new = await asyncio.to_thread(keep, content)
        except EngineError as error:
            self.log.warning(str(error))
            raise try_later(503, "the event belongs to no table, and could not be kept; send it again", seconds=5) from error
        if is_new:
            self.metrics.outcomes.labels(_NO_TABLE, "dead_letter").inc()
            self.log.warning(f"an event posted to {path!r} belongs to no table of the project; it is in {self.dead_letters.file}")
