"""A state as three readers see it that are not ours: Spark SQL, deltalake and Delta's Java Kernel."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from helpers.delta_readers import READERS, Reader, by_deltalake, by_kernel, counted
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables, widen_next
from helpers.histories import NOW
from helpers.merged_states import ROWS, Kept, row
from helpers.reading import CASES, SEED, assert_same, one_spelled
from helpers.schemas import LOGGED, SUBJECTS, Subject
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.base import Engine
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.plan.parts import Part
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows, one_spelling
from cdc_views.state import materialize
from cdc_views.state.state_table import StateTable, open_state
from cdc_views.storage.delta_log import entry_of
from cdc_views.storage.relation_read import facts_of
from cdc_views.storage.table_log import TableLog

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.heavy]


def opened(kept: Growing) -> StateTable:
    """The state as it is now."""
    found = open_state(kept.state, kept.raw.relation, raw=TableLog.open(kept.raw.location))
    assert found is not None
    return found


def seen(session: Any, kept: Growing, step: str, *, readers: Sequence[Reader] = READERS) -> None:
    """Check that all show the same rows: one a key unless runs wait, and in all what the oracle says of the facts."""
    tables = {reader.__name__: reader(session, kept.state) for reader in readers}
    counts = {name: counted(table) for name, table in tables.items()}
    assert all(count == counts["by_deltalake"] for count in counts.values()), step
    facts = [*facts_of(kept.raw.relation, tables["by_deltalake"])]
    if not opened(kept).of([Part.RUN]):
        keys = Counter(key_of(kept.subject, fact) for fact in facts if fact.kind is FactKind.ROW)
        assert [key for key, count in keys.items() if count > 1] == [], step
    schema = kept.subject.schema
    theirs, ours = (one_spelled(schema, latest_rows(schema, each, now=NOW)) for each in (kept.landed, facts))
    assert_same(theirs, ours, of=kept.made, how=f"Delta's readers, {step}")


def key_of(subject: Subject, fact: Fact) -> str:
    """The key of a row, however it is spelled."""
    values = zip(subject.schema.row_key, fact.partition + fact.clustering, strict=True)
    return repr([one_spelling(column, value) for column, value in values])


@pytest.mark.parametrize("writer", often(["duckdb_engine", "spark_engine"], "duckdb_engine"))
@pytest.mark.parametrize("subject", often([*SUBJECTS, UNSHARED], UNSHARED), ids=lambda s: s.name)
def test_three_readers_see_one_row_a_key_through_merges_checkpoints_new_columns_and_rewrites(
    request: pytest.FixtureRequest,
    spark_engine: SparkEngine,
    tmp_path: Path,
    subject: Subject,
    writer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine: Engine = request.getfixturevalue(writer)
    small_tables(monkeypatch)
    kept = Growing(tmp_path, subject, cases=max(16, CASES // 12), seed=SEED)
    facts = len(kept.made.facts)
    steps = [("base", False), ("merge", True), ("merge", False), ("", False), ("merge", True)]
    for number, (what, at_once) in enumerate(steps):
        set_sizes(monkeypatch, worn_share=2)
        merge_next(monkeypatch, what, at_once=at_once)
        kept.land(facts // 20 if number else facts // 2)
        materialize(engine, kept.raw, kept.state)
        if number == 2:
            DeltaTable(kept.state).create_checkpoint()
        # deltalake is quick; on Spark's JVM a read of few rows takes seconds
        readers = READERS if number == 2 else (by_deltalake,) if number < 4 else (by_deltalake, by_kernel)
        seen(spark_engine.session, kept, f"step {number}, {what or 'a run'}", readers=readers)
    # truncates, which logged rows have, turn merges into new bases
    assert subject is LOGGED or any(file.deleted for file in opened(kept).files), "no row was hidden"
    if subject is not LOGGED:
        widen_next(kept)
        materialize(engine, kept.raw, kept.state)
        seen(spark_engine.session, kept, "a new column", readers=(by_deltalake, by_kernel))
    before = {file.path for file in opened(kept).files}
    set_sizes(monkeypatch, worn_share=0, bytes_per_merged=100)
    kept.land(facts // 20)
    materialize(engine, kept.raw, kept.state)
    after = opened(kept).files
    assert not any(file.deleted for file in after), "rows are hidden"
    assert {file.path for file in after} - before, "no bucket was rewritten"
    seen(spark_engine.session, kept, "rewritten buckets")


def damaged(state: Path, how: str) -> None:
    """Damage the only deletion vector of a state."""
    (file,) = state.glob("deletion_vector_*.bin")
    content = bytearray(file.read_bytes())
    if how == "gone":
        file.unlink()
    elif how in ("checksum", "bits"):
        content[-6] ^= 1  # the last bits of the bitmap
        if how == "bits":
            content[-4:] = struct.pack(">I", zlib.crc32(content[5:-4]))
        file.write_bytes(content)
    else:
        entry = entry_of(state, DeltaTable(str(state)).version())
        actions = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
        for action in actions:
            if vector := action.get("add", {}).get("deletionVector"):
                vector["sizeInBytes"] += 1
        entry.write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize("how", ["gone", "checksum", "size", "bits"])
def test_a_strict_reader_refuses_a_damaged_vector_or_shows_other_rows(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Were the vectors not as Delta says, the test above would fail."""
    set_sizes(monkeypatch, at_once_share=0, merge_share=0, rebase_share=100, worn_share=2)
    kept = Kept(tmp_path, duckdb_engine)
    kept.land([row(0, number, at=10) for number in range(ROWS)])
    assert kept.land([row(0, number, at=20) for number in range(0, 6, 2)]).merged == "merge"
    right = counted(by_deltalake(None, kept.state))
    assert counted(by_kernel(spark_engine.session, kept.state)) == right
    damaged(Path(kept.state), how)
    if how == "bits":
        found = counted(by_kernel(spark_engine.session, kept.state))
        assert found != right
        assert counted(by_deltalake(None, kept.state)) == found
    else:
        with pytest.raises(Exception, match=r"DV|deletion_vector"):
            by_kernel(spark_engine.session, kept.state)
