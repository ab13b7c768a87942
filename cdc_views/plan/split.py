"""Reading a state without reducing it again: keys that no fact since its base touches show as they are.

The base holds each row key once, and in a row's deletion the largest that covers it (`compact`). So a row that is not
touched needs no group-by, no join with its partition, and no shuffle. The same holds of the overlay, whose rows stand in
for the base's of the same keys. A partition with static cells counts as touched: its rows show them, and whether they
show alone depends on the rows (rule W3).
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.plan.expr import Expr, Named, col
from cdc_views.plan.nodes import ROWS_ALONE, Join, JoinKind, Node, Source, UnionAll
from cdc_views.plan.reduction import Reduction, Split
from cdc_views.rules.facts import FactKind

SHOWN_AS_STORED = ROWS_ALONE
"""Where rows are that show what is stored."""
JUDGED = (Source.JUDGED, Source.OVERLAY_JUDGED)
"""Where the others are."""
LEVELS = {
    "base_rows": (Source.PLAIN, Source.JUDGED),
    "overlay_rows": (Source.OVERLAY_PLAIN, Source.OVERLAY_JUDGED),
}
"""Parts whose rows the same facts may touch."""


def is_touched(request: Reduction) -> bool:
    """Whether any row of the base may need reducing, or there are rows besides it."""
    return request.split is not None and (request.split.has_fresh or _has_statics(request))


def touched_facts(request: Reduction, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None) -> Node:
    """Return the facts about rows that need reducing: the fresh ones, and those of the base that they touch."""
    assert request.split is not None
    wanted = tuple(kinds)
    fresh = request.scan(f"{name}_since", kinds=wanted, columns=columns, where=where, source=Source.FRESH)
    base = request.scan(f"{name}_of_base", kinds=wanted, columns=columns, where=where, source=Source.BASE)
    if not is_touched(request):
        return base
    parts: list[Node] = []
    if request.split.has_fresh:
        parts += [fresh, _joined(request, base, _touched_rows(request), kind=JoinKind.SEMI)]
    if _has_touched_partitions(request):
        # a row touched both ways comes twice, which changes nothing
        parts.append(_joined(request, base, _touched_partitions(request), kind=JoinKind.SEMI))
    return UnionAll(name, base.grain, tuple(parts))


def places(split: Split) -> list[Source]:
    """Return the parts of the base and of the overlay that there are, those of plain rows first."""
    return [place for place in (*SHOWN_AS_STORED, *JUDGED) if getattr(split, f"has_{place.value}")]


def untouched(request: Reduction, rows: Node, source: Source) -> Node:
    """Return those of a part of the base or overlay that need no reducing, of rows with their identities."""
    assert request.split is not None
    is_covered = request.split.has_overlay and source in (Source.PLAIN, Source.JUDGED)
    is_covered = is_covered and not request.split.are_covered_left_out
    if request.split.has_fresh or is_covered:
        rows = _joined(request, rows, _touched_rows(request, is_covered=is_covered), kind=JoinKind.ANTI)
    if _has_touched_partitions(request):
        rows = _joined(request, rows, _touched_partitions(request), kind=JoinKind.ANTI)
    return rows


def _has_statics(request: Reduction) -> bool:
    """Whether the base may hold static cells that rows show; a state's rows do not hold them."""
    assert request.split is not None
    return bool(request.schema.statics) and bool(_judged(request)) and not request.is_whole


def _judged(request: Reduction) -> list[Source]:
    assert request.split is not None
    return [place for place in places(request.split) if place in JUDGED]


def _has_touched_partitions(request: Reduction) -> bool:
    assert request.split is not None
    has_scopes = request.split.has_fresh and request.split.has_scopes
    return bool(request.schema.clustering) and (has_scopes or _has_statics(request))


def _touched_rows(request: Reduction, *, is_covered: bool = False) -> Node:
    """Row keys that fresh facts are about; `is_covered`: and those of the overlay."""
    assert request.split is not None
    kinds = [FactKind.ROW] if request.schema.clustering else [FactKind.ROW, FactKind.PARTITION]
    scans = [(kinds, Source.FRESH)] if request.split.has_fresh else []
    scans += [([FactKind.ROW], Source.OVERLAY)] if is_covered else []
    name = "covered_or_touched_rows" if is_covered else "touched_rows"
    return keys_of(request, name, scans, request.identities(FactKind.ROW))


def _touched_partitions(request: Reduction) -> Node:
    """Partitions that fresh deletions of partitions and ranges are about, and those with static cells that rows show."""
    assert request.split is not None
    has_statics = _has_statics(request)
    kinds = [FactKind.PARTITION, FactKind.RANGE, *[FactKind.STATIC] * has_statics]
    scans = [(kinds, Source.FRESH)] if request.split.has_fresh else []
    scans += [([FactKind.STATIC], place) for place in _judged(request) if has_statics]
    return keys_of(request, "touched_partitions", scans, request.identities(FactKind.PARTITION))


def keys_of(request: Reduction, name: str, scans: list[tuple[list[FactKind], Source]], keys: tuple[str, ...]) -> Node:
    """Keys of facts, as often as there are facts: what joins them only asks whether there is one."""
    columns = tuple((key, col(key)) for key in keys)
    found = [
        request.scan(f"{name}_by_{source.value}_facts" if scans[1:] else name, kinds=kinds, columns=columns, source=source)
        for kinds, source in scans
    ]
    return found[0] if len(found) == 1 else UnionAll(name, found[0].grain, tuple(found))


def _joined(request: Reduction, rows: Node, touched: Node, *, kind: JoinKind) -> Node:
    assert request.split is not None
    columns = tuple((name, col(name, "l")) for name in rows.output())
    name = f"{rows.name}_{'not_' if kind is JoinKind.ANTI else ''}in_{touched.name}"
    is_small = request.split.is_fresh_small
    if touched.name == "touched_partitions":
        # those with static cells may be as many as there are partitions
        is_small = is_small and not _has_statics(request)
    elif touched.name == "covered_or_touched_rows":
        is_small = is_small and request.split.is_overlay_small
    return Join(
        name,
        rows.grain,
        rows,
        touched,
        kind,
        touched.output(),
        columns,
        is_null_safe=True,
        is_right_small=is_small,
    )


__all__ = ["LEVELS", "SHOWN_AS_STORED", "is_touched", "keys_of", "places", "touched_facts", "untouched"]
