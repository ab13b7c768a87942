"""How `LatestCells` is computed: three ways that give equal rows, as rewrites to plainer nodes.

- `aggregate`: one group-by; each column's winner is the maximum of a struct that starts with rule C2's order.
- `window`: each column ranked within its key, then the first ones gathered.
- `self_join`: per column the latest order key, joined back on it, as WePay's view did (there on time alone).
"""

from __future__ import annotations

from cdc_views.plan.expr import Agg, Call, Expr, Field, Fold, Lit, Op, RowNumber, Struct, both, col, not_null
from cdc_views.plan.nodes import Aggregate, CellColumn, Join, JoinKind, LatestCells, Node, Select
from cdc_views.plan.order import WRITTEN, precedence_parts


def ordered_cell(column: CellColumn) -> Struct:
    """Return the cell as a struct whose maximum is the winner: rule C2's order, then the payload."""
    parts = dict(precedence_parts(column.cell, column.kind))
    for name in column.payload:
        parts.setdefault(name, Field(column.cell, name))
    return Struct(tuple(parts.items()))


def _is_present(column: CellColumn) -> Expr:
    """Whether the fact has the cell. Asked of its write time, so that engines need not read the rest of the struct."""
    return not_null(Field(column.cell, WRITTEN))


def _order_of(column: CellColumn) -> tuple[Expr, ...]:
    return tuple(part for _, part in precedence_parts(column.cell, column.kind))


def aggregate(node: LatestCells, *, source: Node) -> Node:
    """One scan, one group-by."""
    winners = tuple((c.name, Agg(Fold.MAX, ordered_cell(c), _is_present(c))) for c in node.cells)
    return Aggregate(node.name, node.grain, source, node.keys, (*winners, *node.folds))


def window(node: LatestCells, *, source: Node) -> Node:
    """Rank each column's cells within the key, then gather those ranked first."""
    keys = tuple(col(key) for key in node.keys)
    ranks = tuple((f"_rank_{i}", RowNumber(keys, _order_of(c))) for i, c in enumerate(node.cells))
    kept = tuple((name, col(name)) for name in source.output())
    ranked = Select(f"{node.name}_ranked", "fact", source, (*kept, *ranks))
    winners = tuple((c.name, Agg(Fold.ANY, ordered_cell(c), _is_first(i, c))) for i, c in enumerate(node.cells))
    return Aggregate(node.name, node.grain, ranked, node.keys, (*winners, *node.folds))


def _is_first(index: int, column: CellColumn) -> Expr | None:

    return both(Call(Op.EQ, (col(f"_rank_{index}"), Lit(1))), _is_present(column))


def self_join(node: LatestCells, *, source: Node) -> Node:
    """Per column: the largest order key by group, joined back to the facts that have it."""
    result: Node = Aggregate(f"{node.name}_keys" if node.cells else node.name, node.grain, source, node.keys, node.folds)
    for i, column in enumerate(node.cells):
        is_last = i == len(node.cells) - 1
        winners = _joined_back(node, source, column=column)
        columns = (*((name, col(name, "l")) for name in result.output()), (column.name, col("_cell", "r")))
        result = Join(
            node.name if is_last else f"{node.name}_and_{i + 1}",
            node.grain,
            result,
            winners,
            JoinKind.LEFT,
            node.keys,
            columns,
            is_null_safe=True,
        )
    return result


def _joined_back(node: LatestCells, source: Node, *, column: CellColumn) -> Node:
    base = f"{node.name}_of_{column.name.lstrip('_')}"
    order = Struct(precedence_parts(column.cell, column.kind))
    keys = tuple((key, col(key)) for key in node.keys)
    facts = Select(
        f"{base}_facts",
        "fact of the column",
        source,
        (*keys, ("_order", order), ("_cell", ordered_cell(column))),
        _is_present(column),
    )
    latest = Aggregate(f"{base}_order", node.grain, facts, node.keys, (("_latest", Agg(Fold.MAX, col("_order"))),))
    matching = Join(
        f"{base}_joined",
        "latest fact and copy",
        facts,
        latest,
        JoinKind.INNER,
        node.keys,
        (*((key, col(key, "l")) for key in node.keys), ("_cell", col("_cell", "l"))),
        matching=Call(Op.EQ, (col("_order", "l"), col("_latest", "r"))),
        is_null_safe=True,
    )
    return Aggregate(base, node.grain, matching, node.keys, (("_cell", Agg(Fold.ANY, col("_cell"))),))
