"""A new state of all that a raw table has and all that a state has, where raw alone has less than was seen (rule M1)."""

from __future__ import annotations

from dataclasses import replace

from cdc_views.engines.base import Engine, StateWrite
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta
from cdc_views.plan.parts import STORED, FileSet, Part, Source
from cdc_views.state.identity import mark_after
from cdc_views.state.run import at_rest, digits_for
from cdc_views.state.state_table import TRANSACTION, StateTable, create_state, note_sole
from cdc_views.state.tail import active_files
from cdc_views.storage.relation import RawTable


def build_with_state(engine: Engine, raw: RawTable, before: StateTable, location: str) -> None:
    """Build a state at `location`, where there is none, of the facts of raw and of the state `before`.

    It remembers that it holds what raw has not. Raises `UsageError` where `before` has purged deletions (rule M2): older
    facts that raw still has would show again.
    """
    if before.of(Source.PURGED):
        raise UsageError(
            f"{before.location}: has purged deletions (`materialize.lateness`), so that its facts and raw's cannot be joined; "
            "leave --with-state out, or put the raw table back that it was built from"
        )
    table = open_delta(raw.location)
    create_state(location, raw.relation, table)
    note_sole(location)
    # nothing of the state stays a base: any fact of raw may beat any of it (M1)
    sources = at_rest(raw, before).as_runs(Source.SETTLED, tail=FileSet(tuple(active_files(table).values())))
    sources = replace(sources, raw_version=table.version())
    digits = digits_for(before.rows(STORED))
    version = open_delta(location).version()
    mark = mark_after(None, table)
    write = StateWrite(sources, location, Part.BASE, digits, version=version, transaction=(TRANSACTION, mark.number))
    engine.write_state(write)
