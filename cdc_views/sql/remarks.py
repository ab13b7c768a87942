"""What comments say about expressions that a reader of SQL may not expect."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_views.model.types import Kind, Scalar
from cdc_views.plan.expr import Agg, Expr, Fold, Friendly, Struct
from cdc_views.plan.nodes import Node
from cdc_views.plan.order import BYTES, NEGATIVE
from cdc_views.plan.walk import parts_of

_TIES = "of equal times and ranks the larger bytes win (C2)"
_NEGATIVES = "of equal times and ranks the larger bytes win, and a negative number's are larger (C2)"
_UNFIT = "a decimal that does not fit its type fails the query, and its error shows it"
_UNHELD = "times that the engine cannot hold are null"
_TIMES = frozenset({Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT, Kind.DATE})


def remarks(node: Node) -> tuple[str, ...]:
    """Return what to say about a step's expressions, each once."""
    found = {remark for expression in node.expressions() for part in parts_of(expression) for remark in _of(part)}
    return tuple(
        remark
        for remark in (_NEGATIVES, _TIES, _UNFIT, _UNHELD)
        if remark in found and not (remark == _TIES and _NEGATIVES in found)
    )


def _of(part: Expr) -> Iterator[str]:
    match part:
        case Agg(Fold.MAX, Struct(parts)):
            names = {name for name, _ in parts}
            yield from ([_NEGATIVES] if NEGATIVE in names else [_TIES] if BYTES in names else [])
        case Friendly(_, Scalar(decimal_size=(_, _))):
            yield _UNFIT
        case Friendly(_, Scalar(kind)) if kind in _TIMES:
            yield _UNHELD
