"""An explanation printed for people."""

from __future__ import annotations

from cdc_views.cli.printing import print_rows
from cdc_views.operations.explained import CANDIDATE_COLUMNS, candidate_rows, verdict
from cdc_views.operations.explaining import Explanation
from cdc_views.rules.codec.jsontext import to_json


def print_explanation(explanation: Explanation) -> None:
    """Print the key, whether the row exists, and the table of candidates."""
    kinds = {column.name: column.type for column in explanation.schema.row_key}
    key = ", ".join(f"{name} = {to_json(kinds[name], value)}" for name, value in explanation.key.items())
    print(f"{explanation.schema.full_name}, {key}: {verdict(explanation)}")
    print_rows(CANDIDATE_COLUMNS, candidate_rows(explanation), format="table")
