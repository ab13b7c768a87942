"""Rows of a state in the columns of a reduction, shown as they are stored."""

from __future__ import annotations

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import Expr, Field, Named, col
from cdc_views.plan.nodes import Node
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.parts import Source
from cdc_views.plan.reduce import displayed, kept_elements, single_cells, with_elements
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind


def stored_rows(request: Reduction, source: Source) -> Node:
    """Return the rows of a part of the base or overlay, touched or not, in the columns of `reduce_rows`."""
    return request.scan(f"{source.label}_rows", kinds=[FactKind.ROW], columns=_columns(request), source=source)


def _columns(request: Reduction) -> Named:
    schema = request.schema
    keys = dict.fromkeys(request.row_keys() + displayed(schema.row_key))
    return (
        *((key, col(key)) for key in keys),
        (names.LIVE, col(names.LIVE)),
        (names.DELETED, Field(col(names.DELETED), WRITTEN)),
        *_cells(request),
    )


def _cells(request: Reduction) -> Named:
    # rows have no static cells: those of their partition are none, but the columns have their types
    columns: list[tuple[str, Expr]] = []
    for column in request.reducible(request.schema.regulars + request.schema.statics):
        stored = col(physical_name(column.name))
        columns += [(name, request.cell(column, cell)) for name, cell, _ in single_cells(column, stored)]
        if column.type.is_multicell:
            columns.append((names.deletion_of(column.name), Field(Field(stored, "deletion"), WRITTEN)))
    for column in with_elements(request, request.schema.regulars + request.schema.statics):
        columns.append((names.cells_of(column.name), _elements(request, column)))
    return tuple(columns)


def _elements(request: Reduction, column: Column) -> Expr:
    return kept_elements(request, column, Field(col(physical_name(column.name)), "cells"))


__all__ = ["stored_rows"]
