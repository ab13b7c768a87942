"""The condition of a raw table's rows that concern a key, in GoogleSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_views.model.naming import KIND
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation_read import OF_PARTITION, KeyFacts
from cdc_views_bigquery.types import quoted, text_literal


def condition_of(wanted: KeyFacts) -> str:
    """Return the condition, like `KeyFacts.filter`."""
    kind, mine = quoted(KIND), _all_equal(wanted.partition)
    if not wanted.has_all_rows:
        of_key = [f"{kind} IN ({', '.join(map(text_literal, OF_PARTITION))})"]
        if wanted.clustering is not None:
            of_key.append(f"{kind} = {text_literal(FactKind.ROW.value)} AND {_all_equal(wanted.clustering)}")
        mine = f"{mine} AND ({' OR '.join(of_key)})"
    return f"{kind} = {text_literal(FactKind.TABLE.value)} OR ({mine})"


def _all_equal(stored: Mapping[str, Any]) -> str:
    equal = (f"{quoted(name)} {'IS NULL' if value is None else f'= {_literal(value)}'}" for name, value in stored.items())
    return " AND ".join(equal) or "TRUE"


def _literal(value: Any) -> str:
    """A stored value of a key: a whole number, a text, bytes or a truth value; of other types keys are compared by bytes."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case bytes():
            return f"FROM_HEX('{value.hex()}')"
    return text_literal(value)
