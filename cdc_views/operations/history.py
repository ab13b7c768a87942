"""`History`: every version of a table's rows, each with its span of validity in the source's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import write_deltalake

from cdc_views.engines.base import Engine, Read
from cdc_views.errors import UnsupportedError
from cdc_views.formats.base import WriteOrder
from cdc_views.model.strategy import Strategy
from cdc_views.model.types import LogicalType
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import check_raw_is_whole, readable
from cdc_views.operations.keyed import facts_about, stored_facts
from cdc_views.operations.reading import condition_errors, read_of
from cdc_views.operations.result import Answer
from cdc_views.plan.names import IS_ROW, LANDED_FROM, VALID_FROM, VALID_TO
from cdc_views.rules.codec.jsonread import parse_key
from cdc_views.rules.codec.jsontext import quote
from cdc_views.rules.codec.times import instant_text
from cdc_views.rules.instants import Instant, micros
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import KeyFacts

_WHAT = "the versions of a row"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a row, as native values by column, and its span of validity.

    `valid_from` is the first instant of the span, `valid_to` the first after it (None: still valid at the history's `as_of`): µs
    since the epoch, or log positions of whole-row sources. For these, `landed_at` is when the version's first event landed.
    """

    row: dict[str, Any]
    valid_from: int
    valid_to: int | None
    landed_at: datetime | None = None

    @property
    def is_current(self) -> bool:
        """Whether the version is still valid at the history's `as_of`."""
        return self.valid_to is None


@dataclass(frozen=True, slots=True, repr=False)
class History(Answer):
    """The versions of a table's rows; `json_rows` and `shown_rows` add the span (`span_names`). Grain: one row per version, in
    the order of a query, and the versions of a row by time.
    """

    @property
    def is_by_position(self) -> bool:
        """Whether spans are log positions, which are not times (rule S2)."""
        return self.relation.order is not WriteOrder.MICROS

    @property
    def span_names(self) -> tuple[str, ...]:
        """The span's columns: valid_from, valid_to and, by position, landed_at; prefixed with `_` if the table has them too."""
        names = ("valid_from", "valid_to") + ("landed_at",) * self.is_by_position
        while {name.casefold() for name in names} & {column.casefold() for column in self.columns}:
            names = tuple(f"_{name}" for name in names)
        return names

    def versions(self) -> Iterator[Version]:
        """Yield the versions as native values."""
        landed = self.exact.column(LANDED_FROM).to_pylist() if self.is_by_position else [None] * len(self)
        spans = zip(self.exact.column(VALID_FROM).to_pylist(), self.exact.column(VALID_TO).to_pylist(), landed, strict=True)
        for row, (start, end, landed_at) in zip(self.rows(), spans, strict=True):
            yield Version(row, int(start), None if end is None else int(end), landed_at)

    def _texts(self, text: Callable[[LogicalType, Any], str]) -> Iterator[dict[str, str]]:
        for shown, version in zip(Answer._texts(self, text), self.versions(), strict=True):
            spans = [self._instant(version.valid_from), self._instant(version.valid_to)]
            if self.is_by_position:
                spans.append("null" if version.landed_at is None else quote(instant_text(micros(version.landed_at))))
            yield {**shown, **dict(zip(self.span_names, spans, strict=True))}

    def _instant(self, instant: int | None) -> str:
        if instant is None:
            return "null"
        return str(instant) if self.is_by_position else quote(instant_text(instant))


def history_of(
    table: TableContext,
    key: Mapping[str, Any] | str | None = None,
    *,
    where: str | None = None,
    columns: Sequence[str] = (),
    as_of: Instant | None = None,
    landed_as_of: Instant | None = None,
    written_as_of: Instant | None = None,
    limit: int | None = None,
    engine: str | None = None,
    strategy: str | Strategy | None = None,
) -> History:
    """Return every version of each row, with its span of validity in the source's time; reads raw.

    Args:
        table: The table.
        key: Only this row or partition; as for `Table.explain`. Default: all rows.
        where: Only versions for which this condition holds; as for `Table.query`.
        columns: The columns to return after the row key, which always comes first; default: all.
        as_of: The clock that cells expire by stops here; default: now. It filters nothing.
        landed_as_of: Leave out what landed later.
        written_as_of: Leave out what was written later.
        limit: The largest number of versions.
        engine: Where to run; default: the project's engine, or for a key in a warehouse DuckDB, here, on the key's facts.
        strategy: As for `Table.query`.

    Raises:
        UsageError: An invalid key, column, engine, strategy, instant or limit; or raw is not whole.
        UnsupportedError: Raw is in a warehouse, and no key is given.
        EngineError: The engine failed.
    """
    read = read_of(
        table, as_of=as_of, where=where, columns=columns, limit=limit, strategy=strategy,
        landed_as_of=landed_as_of, written_as_of=written_as_of,
    )  # fmt: skip
    check_raw_is_whole(table, what=_WHAT)
    return _answer(table, read, key, engine)


def _answer(table: TableContext, read: Read, key: Mapping[str, Any] | str | None, engine: str | None) -> History:
    keys = [column.name for column in table.schema.row_key]
    wanted = (*(name for name in keys if name not in read.columns), *read.columns)  # the key identifies each version's row
    with readable(table) as (raw, note), _only_of(table, raw, key) as (facts, is_one_row):
        limit = None if is_one_row else read.limit
        with _engine(table, engine) as opened, condition_errors(read.where):
            exact = opened.read(replace(read, raw=facts, columns=wanted, limit=limit, is_history=True))
    if is_one_row:  # the partition's other rows were not read, so versions of the statics alone would be wrong
        exact = exact.filter(exact.column(IS_ROW)).slice(0, read.limit)
    return History(table.relation, wanted, exact, read.as_of, note)


@contextmanager
def _only_of(table: TableContext, raw: RawTable, key: Mapping[str, Any] | str | None) -> Iterator[tuple[RawTable, bool]]:
    """Yield a raw table of the facts that concern `key`, or `raw` without a key; and whether the key is one row's."""
    if key is None:
        if table.project.is_remote:
            title = table.project.engine_plugin.title
            raise UnsupportedError(
                f"{table.name}: the history of all rows reads Delta tables alone, and this raw table is in {title}",
                remedy="name a row or a partition: --key",
            )
        yield raw, False
        return
    schema, (partition, clustering) = table.schema, parse_key(table.schema, key)
    is_one_row = clustering is not None
    wanted = KeyFacts.of_row(schema, partition, clustering) if is_one_row else KeyFacts.of_partition(schema, partition)
    with TemporaryDirectory(prefix="cdc-views-history-") as folder:
        kept = RawTable(str(Path(folder) / "raw"), raw.relation)
        facts = facts_about(table, wanted, what=_WHAT) if table.project.is_remote else stored_facts(raw, wanted)
        write_deltalake(kept.location, facts)
        yield kept, is_one_row


def _engine(table: TableContext, name: str | None) -> AbstractContextManager[Engine]:
    """Open the engine that computes versions; for facts that came from a warehouse, DuckDB here."""
    project = table.project
    if not project.is_remote or name not in (None, project.config.engine):
        return project.engine(name)
    from cdc_views.engines.duckdb.engine import DuckDbEngine

    return closing(DuckDbEngine())
