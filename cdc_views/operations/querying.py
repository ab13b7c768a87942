"""`query` and `explain`: the rows of a table, and why a row has its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from cdc_views.engines.base import Engine, Read, ValueForm
from cdc_views.engines.plugin import plugin_of_session
from cdc_views.operations.context import TableContext
from cdc_views.operations.explaining import Explanation, check_columns, explain
from cdc_views.operations.ingest import check_raw_is_whole, readable
from cdc_views.operations.keyed import facts_about
from cdc_views.operations.reading import condition_errors, read_of
from cdc_views.operations.replication import confirmed_only
from cdc_views.operations.result import Result, StreamedAnswer
from cdc_views.operations.sources import sources_for
from cdc_views.plan.rewrites import Choice
from cdc_views.rules.codec.jsonread import parse_key
from cdc_views.rules.instants import Instant, epoch_seconds
from cdc_views.storage.relation_read import KeyFacts, facts_of


def query_table(
    table: TableContext, *, engine: str | None = None, raw_only: bool = False, confirmed: bool = False, **asked: Any
) -> Result:
    """Return the rows of the merged view; see `Table.query`. Passes `asked` on to `read_of`."""
    with reading(table, engine=engine, raw_only=raw_only, confirmed=confirmed, **asked) as (opened, read, note):
        exact = opened.read(read)
    return Result(table.relation, read.columns, exact, read.as_of, note, table.config.types)


@contextmanager
def streamed_query(
    table: TableContext, *, engine: str | None = None, raw_only: bool = False, confirmed: bool = False, **asked: Any
) -> Iterator[StreamedAnswer]:
    """Yield the rows of `query_table`, which come while the block takes them."""
    with reading(table, engine=engine, raw_only=raw_only, confirmed=confirmed, **asked) as (opened, read, note):
        yield StreamedAnswer(table.relation, read.columns, opened.batches(read), read.as_of, note)


def choice_of(
    table: TableContext, *, engine: str | None = None, raw_only: bool = False, confirmed: bool = False, **asked: Any
) -> Choice:
    """Return the strategy that `query_table` with the same arguments takes, with the reason; reads no rows."""
    with reading(table, engine=engine, raw_only=raw_only, confirmed=confirmed, **asked) as (opened, read, _):
        return opened.choice(read)


@contextmanager
def reading(
    table: TableContext, *, engine: str | None = None, raw_only: bool = False, confirmed: bool = False, **asked: Any
) -> Iterator[tuple[Engine, Read, str]]:
    """Yield the open engine, the read and a note for the reader."""
    read = read_of(table, **asked)
    as_of = None if asked.get("as_of") is None else read.as_of
    if raw_only or confirmed:
        check_raw_is_whole(table, what="what raw alone shows")
    with readable(table) as (raw, note), table.project.engine(engine) as opened, condition_errors(read.where):
        read = replace(read, raw=raw)
        if not (raw_only or confirmed):
            read = replace(read, sources=sources_for(table, read, as_of=as_of))
        only = confirmed_only(table, raw, landed_as_of=read.landed_as_of) if confirmed else nullcontext(raw)
        with only as facts:
            yield opened, replace(read, raw=facts), note


def frame_of(table: TableContext, session: Any, **asked: Any) -> Any:
    """Return the rows of the merged view as a lazy data frame of `session`; see `Table.dataframe`."""
    with reading_of_frame(table, **asked) as read:
        return plugin_of_session(session).on(session).frame(read)


@contextmanager
def reading_of_frame(table: TableContext, *, raw_only: bool = False, **asked: Any) -> Iterator[Read]:
    """Yield the read of a frame, in the types of a view, without an order. Passes `asked` on to `read_of`."""
    with reading_as_shown(table, raw_only=raw_only, **asked) as (read, _):
        yield read


@contextmanager
def reading_as_shown(table: TableContext, *, raw_only: bool = False, **asked: Any) -> Iterator[tuple[Read, str]]:
    """Yield what `reading_of_frame` does, and a note for the reader."""
    read = replace(read_of(table, **asked), is_ordered=False, form=ValueForm.SHOWN)
    as_of = None if asked.get("as_of") is None else read.as_of
    if raw_only:
        check_raw_is_whole(table, what="what raw alone shows")
    with readable(table) as (raw, note), condition_errors(read.where):
        read = replace(read, raw=raw)
        yield read if raw_only else replace(read, sources=sources_for(table, read, as_of=as_of)), note


def explain_row(
    table: TableContext, key: Mapping[str, Any] | str, *, column: str | Sequence[str] | None = None, as_of: Instant | None = None
) -> Explanation:
    """Return every candidate for the cells of one row, and the rule that decided against each loser.

    `key` is the row's key as in `query`'s JSON, a text or a mapping of parsed values; the partition key alone asks for the static
    row. `column`: only this one, or these; None or empty: all. `as_of` is the clock that cells expire by; None: now.
    """
    columns = (column,) if isinstance(column, str) else tuple(column or ())
    check_columns(table.schema, columns)
    place = parse_key(table.schema, key)
    clock = epoch_seconds(datetime.now(timezone.utc) if as_of is None else as_of)
    rows = facts_about(table, KeyFacts.of_row(table.schema, *place), what="what `explain` says of losers")
    return explain(table.schema, facts_of(table.relation, rows), key=place, now=clock, columns=columns)
