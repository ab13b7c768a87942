"""A state whose last run had an older schema file is built again, by what rule M2 says of facts that land too late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import write_deltalake
from helpers.aging import FORGETS, Aging
from helpers.histories import NOW
from helpers.reading import read_rows
from helpers.schemas import INT, Subject, table
from helpers.state_sizes import set_sizes
from helpers.writing import Writer

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact
from cdc_views.state import materialize, sources_of

OLDER = table("t", partition={"p": INT}, clustering={"c": INT}, statics={}, regulars={"v": INT})
NEWER = table("t", partition={"p": INT}, clustering={"c": INT}, statics={}, regulars={"v": INT, "x": INT})
BEFORE, AFTER = Writer(OLDER), Writer(NEWER)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
def test_what_landed_too_late_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_behind: bool, full: bool) -> None:
    set_sizes(monkeypatch, rebase_share=0)
    aging, newer = Aging(tmp_path, Subject(OLDER)), Subject(NEWER)
    raw = replace(aging.raw, relation=newer.relation)

    def land(fact: Fact, *, second: int) -> None:
        rows = newer.relation.rows([fact], landed_at=second * 1_000_000)
        write_deltalake(raw.location, rows, mode="append", schema_mode="merge")

    with DuckDbEngine(str(tmp_path / "views.duckdb")) as engine:
        gone = BEFORE.delete(1, 1, at=11)
        aging.land(replace(gone, deletion=Deletion(11, NOW - 1)), BEFORE.insert(1, 2, at=20, v=8))
        aging.materialize(engine)
        set_sizes(monkeypatch, rebase_share=100, merge_share=100, at_once_share=100)
        land(AFTER.insert(1, 3, at=30, x=5), second=2)
        if is_behind:
            assert materialize(engine, aging.raw, aging.location, forgetting=FORGETS).facts == 1
        land(AFTER.insert(1, 5, at=10, v=7), second=3)
        done = materialize(engine, raw, aging.location, full=full, forgetting=FORGETS)
        assert (done.late, "older schema file" in done.why) == (1, is_behind and not full)
        for _ in range(2):
            rows = read_rows(engine, raw, as_of=NOW + 1, sources=sources_of(raw, aging.location))
            assert [(row["c"], row["v"], row["x"]) for row in rows] == [(2, 8, None), (3, None, 5)]
            assert materialize(engine, raw, aging.location, forgetting=FORGETS).late == 0
