"""The benchmark of whole rows runs, small: answers are equal where they should be; the times mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from relational import BY_HAND, EXACT, measure, wrong

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("percent_absent", [0, 2])
def test_by_hand_is_right_only_where_no_event_leaves_a_column_out(tmp_path: Path, percent_absent: int) -> None:
    found = measure("duckdb", tmp_path, columns=4, percent_absent=percent_absent, facts=3000, runs=1)
    assert [each["subject"] for each in found] == [*EXACT, *BY_HAND]
    assert wrong(found) == []
    assert found[0]["rows"] > 0
    equal = {each["subject"] for each in found if each["is_equal"]}
    rows = {each["subject"]: each["rows"] for each in found}
    assert rows["deduplicate"] < rows["row_number"], "rows that hold a null"
    assert equal == ({*EXACT, "row_number", "arg_max"} if percent_absent == 0 else {*EXACT})
