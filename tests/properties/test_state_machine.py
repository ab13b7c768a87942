"""Any order of landing, materializing, merging, rebuilding and waiting: view(raw) = view(state + tail) = serving table.

Hypothesis picks the steps. CDC_VIEWS_HISTORIES (200) divided by 60 is how many runs of 15 steps it makes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deltalake import DeltaTable
from helpers.growing_states import UNSHARED
from helpers.histories import NOW
from helpers.kept_tables import Kept
from helpers.reading import CASES, land
from helpers.schemas import LOGGED, NARROW, READDED
from helpers.serving import assert_serves
from helpers.state_sizes import with_sizes
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.landing.delta import recorded
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize, sources_of
from cdc_views.state.identity import RawMismatchError
from cdc_views.state.serving import serve
from cdc_views.state.state_table import TRANSACTION

pytestmark = pytest.mark.heavy


class Warehouse(RuleBasedStateMachine):
    """One raw table, its state and its serving table, under everything that may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(prefix="cdc-views-machine-")
        self._engine = DuckDbEngine()
        self._small = with_sizes(most_runs=2, run_digits=((20, 0), (100_000_000, 5)), bucket_bytes=1 << 9)
        self._small.__enter__()
        self.now, self.raws, self.generation = NOW - 2, 0, 1
        self.at_rest = False

    def teardown(self) -> None:
        self._small.__exit__(None, None, None)
        self._engine.close()
        self._folder.cleanup()

    @initialize(subject=st.sampled_from([NARROW, UNSHARED, READDED, LOGGED]), seed=st.integers(0, 1000))
    def begin(self, subject: object, seed: int) -> None:
        self.kept = Kept(Path(self._folder.name), subject, cases=6, seed=seed)  # type: ignore[arg-type]
        self.land(20)

    @rule(count=st.integers(1, 30))
    def land(self, count: int) -> None:
        """Events, some of them landed before."""
        self.kept.land(count)
        self.at_rest = False

    @precondition(lambda self: len(self.kept.landed) > 5)
    @rule(start=st.integers(0, 5))
    def land_again(self, start: int) -> None:
        """A replay."""
        self.kept._waiting[:0] = self.kept.landed[start : start + 10]
        self.kept.land(10)
        self.at_rest = False

    @rule(
        rebase=st.sampled_from([0.0, 0.1, 100.0]),
        merge=st.sampled_from([0.0, 0.1, 100.0]),
        at_once=st.sampled_from([0.0, 0.1, 100.0]),
    )
    def materialize(self, rebase: float, merge: float, at_once: float) -> None:
        """State and serving table, merging never, now and then, or always."""
        with with_sizes(rebase_share=rebase, merge_share=merge, at_once_share=at_once):
            self.kept.run(self._engine, self.now)
        self.at_rest = True

    @rule()
    def materialize_state_alone(self) -> None:
        """A run that was killed before it came to the serving table."""
        materialize(self._engine, self.kept.raw, self.kept.state)

    @rule(seconds=st.integers(0, 2))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.at_rest = self.at_rest and not seconds

    @rule()
    def optimize(self) -> None:
        """Merge raw's small files, and forget those before."""
        table = DeltaTable(self.kept.raw.location)
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    @rule()
    def build_anew(self) -> None:
        self.kept.run(self._engine, self.now, full=True)
        self.at_rest = True

    @rule()
    def switch_generation(self) -> None:
        """What `rebuild` does."""
        self.generation += 1
        self.kept.state = f"{self._folder.name}/state{self.generation}"
        materialize(self._engine, self.kept.raw, self.kept.state, full=True)
        self.at_rest = False

    @rule(case=st.integers(0, 5))
    def delete_events(self, case: int) -> None:
        """Somebody deletes from raw: its state is refused, and a new one begun."""
        before = len(self.kept.landed)
        DeltaTable(self.kept.raw.location).delete(f'"case" = {case}')
        self.kept.landed = [fact for fact in self.kept.landed if fact.partition[:1] != (case,)]
        self.at_rest = False
        if len(self.kept.landed) < before and self._is_built():
            with pytest.raises(RawMismatchError, match="took events out of it"):
                materialize(self._engine, self.kept.raw, self.kept.state)
            self.switch_generation()

    def _is_built(self) -> bool:
        location = self.kept.state
        return DeltaTable.is_deltatable(location) and recorded(DeltaTable(location), TRANSACTION) is not None

    @rule(case=st.integers(0, 5))
    def delete_events_and_bring_them_back(self, case: int) -> None:
        """Delta's RESTORE undoes a DELETE, which commits nothing if no event is of that case."""
        raw = DeltaTable(self.kept.raw.location)
        before = raw.version()
        raw.delete(f'"case" = {case}')
        deleted = DeltaTable(self.kept.raw.location)
        if deleted.version() > before:
            deleted.restore(before)
            self.at_rest = False

    @rule()
    def recreate_raw(self) -> None:
        """Raw is dropped, and made again with half of what it had: its state is refused, and a new one begun."""
        self.raws += 1
        self.kept.landed = self.kept.landed[::2]
        self.kept.raw = land(Path(self._folder.name), self.kept.subject.relation, self.kept.landed, name=f"raw{self.raws}")
        if Path(self.kept.state).exists():
            with pytest.raises(RawMismatchError, match="another Delta table"):
                materialize(self._engine, self.kept.raw, self.kept.state, full=True)
        self.switch_generation()

    @rule()
    def serve_again(self) -> None:
        """A run with nothing to do writes nothing."""
        if self.at_rest:
            assert not serve(self._engine, self.kept.raw, self.kept.state, self.kept.serving, now=self.now).is_new

    @invariant()
    def state_and_tail_show_what_raw_shows(self) -> None:
        if hasattr(self, "kept") and sources_of(self.kept.raw, self.kept.state) is not None:
            self.kept.check(self._engine, now=self.now)

    @invariant()
    def the_serving_table_shows_what_raw_shows(self) -> None:
        if hasattr(self, "kept") and self.at_rest:
            assert_serves(self._engine, self.kept.serving, self.kept.raw, now=self.now)
            rows = latest_rows(self.kept.subject.schema, self.kept.landed, now=self.now)
            found = sum(count or 0 for count in _counts(self.kept.serving))
            assert found == len(rows), "raw itself is read wrongly"


def _counts(location: str) -> list[int]:
    actions = DeltaTable(location).get_add_actions(flatten=True)
    found: list[int] = actions.column("num_records").to_pylist()
    return found


TestWarehouse = Warehouse.TestCase
TestWarehouse.settings = settings(
    max_examples=max(1, CASES // 60),
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
