"""Follows raw tables: runs `materialize` after each landing, paced by an engine's stream (Spark's). A stream's checkpoint only
sets the pace; the state's own commits record which facts the state has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from threading import Event
from typing import cast

from cdc_views.engines.base import Engine, Followed, StreamingEngine
from cdc_views.engines.plugin import engine_plugin, engines_that
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.operations.context import TableContext
from cdc_views.operations.materializing import materialize_on
from cdc_views.operations.scheduling import holding, lock_folder
from cdc_views.state import Materialization
from cdc_views.storage.delta_tables import opened

AVAILABLE_NOW = "available-now"
_INTERVAL = re.compile(r"([1-9]\d{0,5}) *(second|minute|hour)s?\Z")

OnRun = Callable[[str, Materialization], None]
"""Called with a table's name and the outcome of its run."""


def interval_of(trigger: str) -> str | None:
    """Return a trigger's interval for Spark, None for `available-now`; raises `UsageError` for an invalid trigger.

    >>> interval_of("30 seconds"), interval_of("available-now")
    ('30 seconds', None)
    """
    if trigger == AVAILABLE_NOW:
        return None
    found = _INTERVAL.match(trigger.strip().lower())
    if found is None:
        raise UsageError(f'--trigger is {trigger!r}; "{AVAILABLE_NOW}" or an interval such as "30 seconds" was expected')
    return f"{found[1]} {found[2]}s"


def follow_tables(tables: Iterable[TableContext], *, trigger: str, engine: str | None, stop: Event, on_run: OnRun) -> None:
    """Bring each table's state up to date, again after each landing, until `stop` is set.

    With the `trigger` available-now, ends once the states cover all landed facts; an interval runs each table at most once in it.
    Calls `on_run` after each table's first run, and after each run that changed something.

    Raises `UsageError` for an invalid trigger or a table without landed events, `UnsupportedError` if the engine has no streams,
    `EngineError` if a stream fails.
    """
    chosen, interval = list(tables), interval_of(trigger)
    if not chosen:
        return
    name = engine or chosen[0].project.config.engine
    if not engine_plugin(name).streams:
        others = " or ".join(engines_that(lambda plugin: plugin.streams))
        raise UnsupportedError(
            f"--trigger needs an engine with streams, and {name} has none", remedy=f"add --engine {others}, or use --schedule"
        )
    with chosen[0].project.engine(name) as opened:
        followed = [_followed(table, opened, on_run) for table in chosen]
        cast("StreamingEngine", opened).follow(followed, interval=interval, stop=stop)


def _followed(table: TableContext, engine: Engine, on_run: OnRun) -> Followed:
    """Run the table once: its state may be behind although its stream has seen every commit."""

    def materialized() -> Materialization:
        with holding(lock_folder(table.project, table.config), table=table.name, wait=600.0):
            return materialize_on(engine, table)

    def run() -> None:
        outcome = materialized()
        if outcome.is_new:
            on_run(table.name, outcome)

    on_run(table.name, materialized())
    identity = opened(table.location).metadata().id  # another raw table in this place needs another stream
    checkpoint = table.project.warehouse / "streams" / table.config.slug / str(identity)
    return Followed(table.name, table.location, str(checkpoint), run)
