"""Why a cell has its value: its candidates as `explain` has them, the rule in words, and their times as a drawing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc_views.formats.base import WriteOrder
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import candidate_rows, verdict
from cdc_views.operations.explaining import Explanation, Outcome
from cdc_views.operations.querying import explain_row
from cdc_views.pages.texts import LONGEST_ALONE, ShownValue, Veil, masked_columns, shown_value, visible
from cdc_views.rules.codec.jsontext import JsonRow, to_json
from cdc_views.rules.codec.row_texts import plain
from cdc_views.rules.codec.times import instant_text, second_text

PAGE = 100
"""Candidates of a page."""
DRAWN = 300
"""Candidates in a drawing, the winners first."""
RULES: Mapping[str, str] = {
    "": "nothing beat it: this is what a read shows",
    "C2.1": "another was written later (the larger write time wins)",
    "C2.2": "written at the same time, an expiring cell or a deletion beats a plain one",
    "C2.3": "written at the same time, a deletion beats an expiring cell",
    "C2.4": "written at the same time, the one that was deleted or expires later wins",
    "C2.5": "written at the same time with the same expiry, the smaller TTL wins: it was written later",
    "C2.6": "written at the same time, the larger value wins, compared by its bytes",
    "C4": "it won, and its time to live has passed",
    "C5": "it won, and it is a deletion, so the cell shows null",
    "D1": "a deletion of its row covers it",
    "D2": "a deletion of a range, or of its partition, covers it",
    "D3": "a deletion of the whole collection covers it",
    "S6": "a truncation of the table covers it",
    "W1": "another row marker was written later",
    "W6": "its column was dropped after it was written",
    "copy": "it is a copy of the winner",
}
"""Why a candidate does not show, by the rule that decided."""
_KEEPS = "nothing beat it: the row exists by it"
"""Of a row marker, which has no value to show."""
_BEATEN: Mapping[str, str] = {
    "C2.1": "written earlier",
    "C2.2": "written at the same time and plain, without expiry or deletion",
    "C2.3": "expiring, where the winner is a deletion of the same time",
    "C2.4": "of an earlier expiry or deletion",
    "C2.5": "of a larger TTL",
    "C2.6": "written at the same time with a smaller value",
    "W6": "written before the column was dropped",
    "copy": "copies",
}
_WON = {
    Outcome.SHOWN: "The newest write wins",
    Outcome.TOMBSTONE: "The newest write is a deletion, so it shows null",
    Outcome.EXPIRED: "The newest write had a time to live, which has passed, so it shows null",
}


@dataclass(frozen=True, slots=True)
class CellCandidate:
    """A candidate or deletion: what it is, its times for people, how it ended, why, and the nodes that told of it."""

    column: str
    path: str
    what: str
    value: ShownValue
    written: str
    expires: str
    deleted: str
    outcome: str
    rule: str
    why: str
    origins: tuple[str, ...]
    nodes: tuple[str, ...]
    at: int
    until: int | None


@dataclass(frozen=True, slots=True)
class CellPage:
    """A cell's page, or a row's if `column` is empty. `key` is empty where keys stay out. `columns` has each column's answer;
    `counts` candidates by outcome.
    """

    key: str
    column: str
    as_of: int
    verdict: str
    answer: str
    value: ShownValue | None
    columns: tuple[tuple[str, ShownValue, int, str], ...]
    candidates: tuple[CellCandidate, ...]
    in_all: int
    offset: int
    counts: Mapping[str, int]
    drawn: tuple[CellCandidate, ...]
    is_micros: bool

    @property
    def has_more(self) -> bool:
        """Whether candidates come after those of this page."""
        return self.offset + len(self.candidates) < self.in_all


def cell_page(table: TableContext, key: str, *, column: str = "", as_of: str | int, offset: int = 0) -> CellPage:
    """Return the page of a cell, or of a row; raises as `explain` does."""
    explanation = explain_row(table, key, column=column or None, as_of=as_of)
    veil = Veil(masked_columns(table))
    return page_of(explanation, key=key, column=column, offset=offset, veil=veil, order=table.format.order)


def page_of(
    explanation: Explanation, *, key: str, veil: Veil, order: WriteOrder, column: str = "", offset: int = 0, most: int = PAGE
) -> CellPage:
    """Return the page of an explanation, with `most` candidates from the one at `offset`."""
    is_micros, rows = order is WriteOrder.MICROS, list(candidate_rows(explanation))
    ordered = [*(row for row in rows if _is_winner(row)), *(row for row in rows if not _is_winner(row))]
    page = [_candidate(row, veil, is_micros=is_micros) for row in rows[offset : offset + most]]
    drawn = [_candidate(row, veil, is_micros=is_micros) for row in ordered[:DRAWN]]
    value = _value(explanation, column, veil) if column else None
    return CellPage(
        key="" if veil.is_whole else key,
        column=column,
        as_of=explanation.now,
        verdict=verdict(explanation),
        answer=_answer(explanation, column),
        value=value,
        columns=() if column else _columns(explanation, veil),
        candidates=tuple(page),
        in_all=len(rows),
        offset=offset,
        counts=Counter(str(plain(row["outcome"])) for row in rows if row["outcome"] != "null"),
        drawn=tuple(drawn),
        is_micros=is_micros,
    )


def _is_winner(row: JsonRow) -> bool:
    return row["outcome"] not in ('"lost"', '"dropped"')


def _value(explanation: Explanation, column: str, veil: Veil) -> ShownValue:
    text = to_json(explanation.schema.column(column).type, explanation.value(column))
    return veil.shown if veil.hides(column) and text != "null" else shown_value(text, most=LONGEST_ALONE)


def _columns(explanation: Explanation, veil: Veil) -> tuple[tuple[str, ShownValue, int, str], ...]:
    counts: Counter[str] = Counter()
    for place in explanation.places:
        if place.column is not None:
            counts[place.column.name] += len(place.candidates)
    found = []
    for column in explanation.schema.columns:
        if not column.is_key:
            shown = _value(explanation, column.name, veil)
            found.append(
                (column.name, replace(shown, text=shown.text[:400]), counts[column.name], _answer(explanation, column.name))
            )
    return tuple(found)


def _answer(explanation: Explanation, column: str) -> str:
    """Return, in a sentence, why a column shows what it does; of a row, whether it is there."""
    places = [place for place in explanation.places if place.column is not None and place.column.name == column]
    if not column:
        return verdict(explanation)
    if not places:
        return "Nothing was ever written to it"
    if explanation.schema.column(column).type.is_multicell:
        shown = sum(place.shown is not None for place in places)
        return f"{shown:,} of {len(places):,} elements show; each is decided by itself"
    (place,) = places
    winner = place.winner
    if winner is None:
        return "Each of its writes is older than the dropping of its column"
    told = _WON.get(winner.outcome) or (
        f"{RULES.get(winner.rule, winner.rule).replace('covers it', 'covers the newest write')}, so it shows null".capitalize()
    )
    nodes = len({origin.node for origin in winner.origins})
    told += f", told by {nodes:,} {'node' if nodes == 1 else 'nodes'}" if winner.outcome is Outcome.SHOWN else ""
    beaten = Counter(one.rule for one in place.candidates if not one.is_winner)
    lost = ", ".join(f"{count:,} {_BEATEN.get(rule, rule)} ({rule})" for rule, count in beaten.items())
    return f"{told}. It beat {lost}" if beaten else told


def _why(rule: str, *, is_marker: bool) -> str:
    return _KEEPS if is_marker and not rule else RULES.get(rule, rule)


def _candidate(row: JsonRow, veil: Veil, *, is_micros: bool) -> CellCandidate:
    texts = {name: "" if text == "null" else str(plain(text)) for name, text in row.items() if name != "value"}
    column, at = texts["column"], int(row["written"])
    is_masked = veil.hides(column) and row["value"] != "null"
    origins = tuple(json.loads(row["origins"]))
    nodes = tuple(dict.fromkeys(one.rpartition(" ")[0] for one in origins))
    expires, deleted = (None if row[name] == "null" else int(row[name]) for name in ("expires_at", "deleted_at"))
    return CellCandidate(
        column=column,
        path=veil.shown.text if veil.hides(column) and texts["path"] else visible(texts["path"], most=80),
        what="tombstone" if deleted is not None and texts["what"] == "cell" else texts["what"],
        value=veil.shown if is_masked else shown_value(row["value"], most=400),
        written=instant_text(at) if is_micros else f"{at:,}",
        expires="" if expires is None else second_text(expires),
        deleted="" if deleted is None or not is_micros else second_text(deleted),
        outcome=texts["outcome"],
        rule=texts["rule"],
        why=_why(texts["rule"], is_marker=texts["what"] == "row marker") if texts["outcome"] else "",
        origins=tuple(visible(one, most=120) for one in origins[:12]),
        nodes=tuple(visible(node, most=60) for node in nodes[:12]),
        at=at,
        until=None if expires is None else expires * 1_000_000,
    )
