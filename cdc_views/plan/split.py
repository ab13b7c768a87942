"""Reading a state without reducing it again: rows that no newer fact touches show as they are.

The base has each row key once, with deletions applied (`compact`). So an untouched row needs no group-by, no join with its
partition, and no shuffle. The same holds for the overlay, whose rows replace the base's. A partition with static cells
counts as touched: its rows show them, and whether it shows a row of its own depends on its rows (rule W3).
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.plan.expr import Expr, Named, col
from cdc_views.plan.nodes import Join, JoinKind, Node, UnionAll
from cdc_views.plan.parts import Part, Parts, Source
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind


def is_touched(request: Reduction) -> bool:
    """Whether a row of the base may need reducing, or newer facts exist."""
    return request.split is not None and (request.split.has(Source.FRESH) or _has_statics(request))


def touched_facts(request: Reduction, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None) -> Node:
    """Return the facts about rows to reduce: the fresh ones, and the rows of base and overlay that they touch."""
    split, wanted = _split(request), tuple(kinds)
    fresh = request.scan(f"{name}_since", kinds=wanted, columns=columns, where=where, source=Source.FRESH)
    base = request.scan(f"{name}_of_base", kinds=wanted, columns=columns, where=where, source=Source.SETTLED)
    if not is_touched(request):
        return base
    parts: list[Node] = []
    if split.has(Source.FRESH):
        # M1: the base's winners and newer facts reduce to the same row as all of raw
        parts += [fresh, _joined(request, base, _touched_rows(request), kind=JoinKind.SEMI)]
    if _has_touched_partitions(request):
        # D2, W3: a deletion or a static is about every row of its partition; M1: a row that comes twice changes nothing
        parts.append(_joined(request, base, _touched_partitions(request), kind=JoinKind.SEMI))
    return UnionAll(name, base.grain, tuple(parts))


def untouched(request: Reduction, rows: Node, source: Source) -> Node:
    """Return the untouched rows of one part of base or overlay; `rows` carry their identities."""
    split = _split(request)
    # the overlay replaces rows of the base; a reader with `Part.COVERED` skips them by position instead
    is_replaced = source in (Source.PLAIN, Source.JUDGED) and split.has(Source.OVERLAY) and not split.of([Part.COVERED])
    if split.has(Source.FRESH) or is_replaced:
        rows = _joined(request, rows, _touched_rows(request, with_overlay=is_replaced), kind=JoinKind.ANTI)
    if _has_touched_partitions(request):
        rows = _joined(request, rows, _touched_partitions(request), kind=JoinKind.ANTI)
    return rows


def _split(request: Reduction) -> Parts:
    assert request.split is not None
    return request.split


def _judged(request: Reduction) -> list[Source]:
    return [place for place in _split(request).places() if not place.is_plain]


def _has_statics(request: Reduction) -> bool:
    """Whether the base may hold static cells for rows to show (W3). Compacting ignores them: a state's rows have none."""
    return bool(request.schema.statics) and bool(_judged(request)) and not request.is_whole


def _has_touched_partitions(request: Reduction) -> bool:
    """Whether facts may touch all rows of a partition. Without clustering columns a partition is one row."""
    fresh = _split(request).of(Source.FRESH)
    has_scopes = bool(fresh) and fresh.statistics.has_scopes
    return bool(request.schema.clustering) and (has_scopes or _has_statics(request))


def _touched_rows(request: Reduction, *, with_overlay: bool = False) -> Node:
    """The row keys of fresh facts, and of the overlay if asked for."""
    kinds = [FactKind.ROW] if request.schema.clustering else [FactKind.ROW, FactKind.PARTITION]
    scans = [(kinds, Source.FRESH)] if _split(request).has(Source.FRESH) else []
    scans += [([FactKind.ROW], Source.OVERLAY)] if with_overlay else []
    name = "covered_or_touched_rows" if with_overlay else "touched_rows"
    return keys_of(request, name, scans, request.identities(FactKind.ROW))


def _touched_partitions(request: Reduction) -> Node:
    """The partitions of fresh partition and range deletions (D2), and those with static cells that rows show (W3)."""
    has_statics = _has_statics(request)
    kinds = [FactKind.PARTITION, FactKind.RANGE, *[FactKind.STATIC] * has_statics]
    scans = [(kinds, Source.FRESH)] if _split(request).has(Source.FRESH) else []
    scans += [([FactKind.STATIC], place) for place in _judged(request) if has_statics]
    return keys_of(request, "touched_partitions", scans, request.identities(FactKind.PARTITION))


def keys_of(request: Reduction, name: str, scans: list[tuple[list[FactKind], Source]], keys: tuple[str, ...]) -> Node:
    """Return the keys of facts, one row per fact, for semi and anti joins."""
    columns = tuple((key, col(key)) for key in keys)
    found = [
        request.scan(f"{name}_by_{source.label}_facts" if scans[1:] else name, kinds=kinds, columns=columns, source=source)
        for kinds, source in scans
    ]
    return found[0] if len(found) == 1 else UnionAll(name, found[0].grain, tuple(found))


def _joined(request: Reduction, rows: Node, touched: Node, *, kind: JoinKind) -> Node:
    columns = tuple((name, col(name, "l")) for name in rows.output())
    name = f"{rows.name}_{'not_' if kind is JoinKind.ANTI else ''}in_{touched.name}"
    is_small = _split(request).is_small(Source.SINCE if touched.name == "covered_or_touched_rows" else Source.FRESH)
    if touched.name == "touched_partitions":
        # every partition may have static cells
        is_small = is_small and not _has_statics(request)
    on = touched.output()
    return Join(name, rows.grain, rows, touched, kind, on, columns, is_null_safe=True, is_right_small=is_small)
