"""A relation whose view shows some columns in other types than their friendly ones."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from cdc_views.overrides import parse_override
from cdc_views.relation import Relation


@dataclass(frozen=True, slots=True)
class ShownRelation(Relation):
    """A relation with `columns:` of the project file: (user name, type text), checked by `overrides`."""

    casts: tuple[tuple[str, str], ...] = ()


def casts_of(relation: Relation) -> dict[str, exp.DataType]:
    """Return the types to cast to, by user name; most relations have none."""
    return {name: parse_override(text) for name, text in relation.casts} if isinstance(relation, ShownRelation) else {}
