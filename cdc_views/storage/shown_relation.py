"""A relation whose view shows some columns in other types than their friendly types."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from cdc_views.model.overrides import parse_override, precision_and_scale
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import TEXT_KINDS, TEXT_STORED, Kind, Scalar
from cdc_views.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class ShownRelation(Relation):
    """A relation with `columns:` of the project file: (user name, type text), checked by `model.overrides`."""

    casts: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> TableSchema:
        """The schema with these types. A stored text that shows as DECIMAL is read as one of that size, and never rounded."""
        wanted = dict(self.casts)
        columns = tuple(_retyped(c, parse_override(wanted[c.name])) if c.name in wanted else c for c in self.schema.columns)
        return replace(self.schema, columns=columns)


def casts_of(relation: Relation) -> dict[str, exp.DataType]:
    """Return the casts to the types of `relation.shown`, by user name; most relations have none."""
    if not isinstance(relation, ShownRelation):
        return {}
    found = {name: parse_override(text) for name, text in relation.casts}
    return {name: kind for name, kind in found.items() if not _is_read_as(relation.schema.column(name), kind)}


def _is_read_as(column: Column, wanted: exp.DataType) -> bool:
    """Whether a column's values are read as the wanted type, instead of being cast to it."""
    assert isinstance(column.type, Scalar)
    if wanted.this is exp.DataType.Type.DECIMAL:
        return column.type.kind in TEXT_STORED | TEXT_KINDS
    return wanted.this is exp.DataType.Type.TEXT and column.type.kind is Kind.DECIMAL


def _retyped(column: Column, wanted: exp.DataType) -> Column:
    assert isinstance(column.type, Scalar)
    if not _is_read_as(column, wanted):
        # a decimal of a declared size is cast from its text, so the declared size may be wrong
        return replace(column, type=replace(column.type, precision=None))
    if wanted.this is exp.DataType.Type.TEXT:
        return replace(column, type=Scalar(Kind.DECIMAL, column.type.scale))
    precision, scale = precision_and_scale(wanted)
    return replace(column, type=Scalar(Kind.DECIMAL, scale, precision))
