"""Rows of a source in the types of a schema, by the decoder of their raw format: what `verify` compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.formats.base import SourceLine
from cdc_views.landing.live_sources import LiveOrder, SourceRow
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.rules.codec.jsontext import to_json


class RowReader:
    """Reads rows from events of op `r`, which `event` writes for a row's values as the source prints them, in `names`' order.

    A row is decoded as landing decodes it. Whatever the source prints, the log's form and the snapshot's are one (the producer's
    own tests compare them with the source's SELECT), so a difference is one of content.
    """

    def __init__(self, order: LiveOrder, names: Sequence[str], event: Callable[[Sequence[Any], Sequence[str]], bytes]) -> None:
        """`event` takes the printed values and the names of their columns; `names` are the columns of the source's table.

        Raises `UsageError` if it lacks a column of the schema's key.
        """
        self.order, self.event = order, event
        self.key = [column.name for column in order.schema.row_key]
        if missing := [name for name in self.key if name not in names]:
            raise UsageError(f"{order.name}: the source's table has no {', '.join(missing)}, which the schema's key has")
        self.lacking = [column.name for column in order.stored.columns if column.name not in names]
        known = {column.name: column for column in order.stored.columns}
        self.places = [(place, known[name]) for place, name in enumerate(names) if name in known]
        self.keys = [place for place, column in self.places if column.is_key]
        self.names = list(names)

    def resume(self, printed: Sequence[Sequence[Any]], *, limit: int | None) -> str:
        """Return where the chunk behind these rows begins, for `resumed`; empty if there are fewer than `limit`."""
        if limit is None or len(printed) < limit:
            return ""
        return json.dumps([printed[-1][self.names.index(name)] for name in self.key])

    def row(self, printed: Sequence[Any], version: Hashable = None) -> SourceRow | None:
        """Return one row; None if its key is none of the schema's, so that it can be nobody's row in the view."""
        try:
            values = self._decoded(printed, [place for place, _ in self.places])
            return SourceRow(values, version)
        except MalformedEventError:
            return self._in_parts(printed, version)

    def _in_parts(self, printed: Sequence[Any], version: Hashable) -> SourceRow | None:
        """Decode column by column, to name those that do not fit."""
        try:
            values = self._decoded(printed, self.keys)
        except MalformedEventError:
            return None
        unfit = {}
        for place, column in self.places:
            if not column.is_key:
                try:
                    values |= self._decoded(printed, [*self.keys, place])
                except MalformedEventError as error:
                    unfit[column.name] = f"{printed[place]}: {error}" if column == self._of_source(column.name) else str(error)
        return SourceRow(values, version, unfit=unfit)

    def _of_source(self, name: str) -> Column:
        return self.order.schema.column(name)

    def _decoded(self, printed: Sequence[Any], places: Sequence[int]) -> dict[str, Any]:
        schema = self.order.stored
        event = self.event([printed[place] for place in places], [self.names[place] for place in places])
        redacted = self.order.format.redacted(event)
        if redacted.reason:
            raise MalformedEventError(redacted.reason)
        (fact,) = self.order.format.decode(SourceLine(redacted.content.decode()), schema)
        keys = zip(schema.row_key, (*fact.partition, *fact.clustering), strict=True)
        values = {column.name: value for column, value in keys}
        for place in places:
            column = schema.column(self.names[place])
            if not column.is_key:
                cell = fact.cells.get(column.name)
                values[column.name] = None if cell is None else cell.value
        return values


def printed_key(kind: LogicalType, value: Any) -> str:
    """Return a key's value in the form that SQL takes between quotes; a blob as its bytes in hex, without a mark."""
    if isinstance(kind, Scalar) and kind.kind is Kind.BLOB:
        return bytes(value).hex()
    text = to_json(kind, value)
    return str(json.loads(text)) if text.startswith('"') else text


def resumed(resume: str) -> list[str]:
    """Return the key that a chunk begins behind, as printed; empty: the chunk begins with the first row."""
    return list(json.loads(resume)) if resume else []
