"""A sample compared with part of raw: what is sound passes whichever part it is, and what raw's part has is missed nowhere."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.corrupting import Rows, silently
from helpers.corruptions import Kept, made
from helpers.tiny_project import SCHEMA

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.quality import sampling, validating
from cdc_views.quality import sampling as looking
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Bound, Fact, FactKind
from cdc_views.state import sources_of

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def sound(cassandra_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A captured table, its raw files cut into row groups of 100 facts."""
    kept = made(tmp_path_factory.mktemp("landed"), cassandra_cases, "wide3")
    for uri in DeltaTable(kept.raw).file_uris():
        pq.write_table(pa.table(pq.read_table(uri)), uri, row_group_size=100)
    return kept


def differing(kept: Kept, engine: DuckDbEngine, *, seed: int, most: int) -> tuple[int, looking.SampledRaw]:
    """Rows and cells that differ, and what was looked at, as `validate` compares them."""
    table = kept.table
    sources = sources_of(table.raw, table.state_location)
    assert sources is not None
    sample = sampling.draw(sources, size=50, seed=seed)
    part = looking.landed(sample, seed=seed, most=most)
    facts = part.facts if part.is_whole else part.facts + sampling.kept_facts(sample)
    shown = sampling.shown_rows(engine, sample, as_of=kept.as_of)
    expected = sampling.expected_rows(sample, facts, as_of=kept.as_of)
    return len(sampling.differences(table.schema, expected, shown)), part


@pytest.mark.slow
def test_whichever_part_of_raw_is_looked_at_it_changes_nothing(sound: Kept, duckdb_engine: DuckDbEngine) -> None:
    for seed in range(10):
        count, part = differing(sound, duckdb_engine, seed=seed, most=400)
        assert count == 0
        assert not part.is_whole
        assert 400 <= part.looked_at < 500
        assert part.facts


def test_all_of_raw_is_looked_at_where_it_is_small(sound: Kept, duckdb_engine: DuckDbEngine) -> None:
    count, part = differing(sound, duckdb_engine, seed=1, most=looking.MOST_FACTS)
    everything = sum(pq.read_metadata(uri).num_rows for uri in DeltaTable(sound.raw).file_uris())
    assert (count, part.is_whole, part.looked_at) == (0, True, everything)


def test_the_parts_have_all_facts_and_no_others(sound: Kept) -> None:
    table = sound.table
    sources = sources_of(table.raw, table.state_location)
    assert sources is not None
    sample = sampling.draw(sources, size=50, seed=3)
    whole = looking.landed(sample, seed=3)
    almost = looking.landed(sample, seed=3, most=whole.looked_at - 1)
    assert almost.is_whole, "the last row group goes over the limit"
    some = looking.landed(sample, seed=3, most=whole.looked_at // 2)
    assert 0 < len(some.facts) < len(whole.facts)
    rest = [repr(fact) for fact in whole.facts]
    for fact in some.facts:
        rest.remove(repr(fact))


@pytest.mark.slow
def test_cells_lost_from_the_state_are_noticed_from_part_of_raw(
    sound: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emptied(rows: Rows) -> Rows:
        return [{**row, "v": None} for row in rows]

    shutil.copytree(sound.root, tmp_path / "corrupted")
    kept = Kept(tmp_path / "corrupted", sound.name, sound.as_of)
    assert silently(kept.state, emptied) > 0
    monkeypatch.setattr(
        "cdc_views.quality.bookkeeping.whole", lambda *_, **__: iter(())
    )  # the log knows raw's files as they were
    monkeypatch.setattr(validating, "recomputed", partial(looking.recomputed, most=800))
    checks = [check for seed in range(4) for check in kept.validate(seed=seed).checks]
    found = [check for check in checks if check.name == "sample_equals_oracle"]
    assert ["from the state and some of raw" in check.note for check in found] == [True] * 4
    assert any(check.broken for check in found), "the newest replica's file has most of them"


def test_lost_deletions_of_rows_and_partitions_without_ranges_are_told() -> None:
    gone = Deletion(20, 1)
    row, whole = Fact(FactKind.ROW, (1,), (0,), deletion=gone), Fact(FactKind.PARTITION, (2,), deletion=gone)
    covered = Fact(FactKind.RANGE, (3,), deletion=gone, start=Bound((0,), inclusive=True), end=Bound((), inclusive=True))
    landed = [row, whole, replace(row, partition=(3,)), covered]
    told = [sampling.lost_deletions(SCHEMA, landed, kept) for kept in ([], [row], [whole], [row, whole])]
    lost = ['{"id": 1, "line": 0}: the deletion of 20 is not kept', '{"id": 2}: the deletion of 20 is not kept']
    assert told == [lost, lost[1:], lost[:1], []]
