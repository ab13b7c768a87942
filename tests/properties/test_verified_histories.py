"""`verify` on random histories with random losses, while others write and the producer is late: no verdict is false."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from helpers.live_memory import MemoryLive, table_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NUMBERS = count()
EXAMPLES = max(5, int(os.environ.get("CDC_VIEWS_HISTORIES", "100")) // 50)
KEYS = st.integers(1, 5)
CHANGES = st.tuples(KEYS, st.sampled_from(("a", "b", None, "gone")), st.integers(0, 1))


def change(live: MemoryLive, number: int, state: str | None, amount: int) -> None:
    if state == "gone":
        live.remove(number)
    else:
        live.put(number, state, amount)


@pytest.mark.heavy
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=8),
    during=st.lists(st.tuples(CHANGES, st.booleans()), max_size=8),
    has_state=st.booleans(),
)
def test_each_loss_is_found_and_nothing_else(tmp_path: Path, before, during, has_state) -> None:
    folder = tmp_path / str(next(NUMBERS))
    folder.mkdir()
    live = MemoryLive(table_of(folder))
    shown, lost = {}, set()
    for one, is_lost in before:
        there = live.lsn
        change(live, *one)
        if is_lost:
            lost |= set(range(there + 1, live.lsn + 1))
        else:
            shown[one[0]] = live.rows.get(one[0])
    live.land(losing=lambda lsn: lsn in lost)
    if has_state:
        live.table.materialize()
    wrong = {key for key in range(1, 6) if shown.get(key) != live.rows.get(key)}
    rest = iter(during)

    def go_on() -> None:
        found = next(rest, None)
        if found is not None:
            change(live, *found[0])
        if found is None or found[1]:
            live.land(losing=lambda lsn: lsn in lost)

    live.meanwhile = go_on
    done = live.verify()
    losses = {finding.key["id"] for finding in done.findings if finding.outcome.value == "loss"}
    healed = {one[0] for one, _ in during}
    assert losses <= wrong, done.findings
    assert wrong - healed <= losses, done.findings
