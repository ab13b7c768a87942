"""One table of a project and its operations. Imports Arrow, Delta and the engines when they are first used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cdc_views.operations.context import TableContext
from cdc_views.operations.damage import names_damage
from cdc_views.rules.instants import Instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from cdc_views.landing import LandingReport, Progress, ReplayReport, StreamLander
    from cdc_views.model.strategy import Strategy
    from cdc_views.model.style import Style
    from cdc_views.operations.applying import TablePlan
    from cdc_views.operations.erasing.forgetting import Erasure, Undecodable
    from cdc_views.operations.explaining import Explanation
    from cdc_views.operations.fidelity import FidelityLine
    from cdc_views.operations.history import History
    from cdc_views.operations.lateness import LatePart
    from cdc_views.operations.maintaining import Upkeep
    from cdc_views.operations.reading import FrameOptions, OrderedOptions, QueryOptions
    from cdc_views.operations.rebuilding import Rebuilt
    from cdc_views.operations.replication import ReplicaReport
    from cdc_views.operations.result import Result
    from cdc_views.operations.retention import Dropped
    from cdc_views.operations.writing import RowsWritten
    from cdc_views.plan.rewrites import Choice
    from cdc_views.quality.checks import Report
    from cdc_views.state import Materialization


@names_damage
@dataclass(frozen=True, repr=False)
class Table(TableContext):
    """One table of a project; each method forwards to the operation of the same name."""

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.project.config.engine}, {self.config.raw.format})"

    def _repr_html_(self) -> str:
        from cdc_views.operations.notebook import html_table

        rows = [{"column": c.name, "type": str(c.type), "role": c.role.value} for c in self.schema.columns]
        note = f"engine {self.project.config.engine}, format {self.config.raw.format}, schema {self.config.schema_place}"
        return html_table(("column", "type", "role"), rows, title=self.name, note=note)

    def land(self, *files: str | Path, now: datetime | None = None, progress: Progress | None = None) -> LandingReport:
        """Append event files; see `cdc_views.landing.land`. `now` defaults to the clock."""
        from cdc_views.operations.ingest import land_files

        return land_files(self, files, now=now or datetime.now(timezone.utc), progress=progress)

    def stream(self, name: str, *, shown: int | None = None) -> StreamLander:
        """Return a lander of the stream `name`; see `cdc_views.operations.ingest.stream_into`."""
        from cdc_views.operations.ingest import stream_into

        return stream_into(self, name, shown=shown)

    def replay(self, *, now: datetime | None = None) -> ReplayReport:
        """Land the waiting events of quarantine again; see `cdc_views.landing.replay`. `now` defaults to the clock."""
        from cdc_views.operations.ingest import replay_waiting

        return replay_waiting(self, now=now or datetime.now(timezone.utc))

    def query(
        self,
        *,
        as_of: Instant | None = None, where: str | None = None, columns: Sequence[str] = (), limit: int | None = None,
        engine: str | None = None, strategy: str | Strategy | None = None, landed_as_of: Instant | None = None,
        written_as_of: Instant | None = None, raw_only: bool = False, confirmed: bool = False,
        order_by: Sequence[str] = (), offset: int = 0,
    ) -> Result:  # fmt: skip
        """Return the rows of the merged view; needs neither view nor state, but reads less if the table has a state.

        Args:
            as_of: The clock that cells expire by (rule C4); default: now.
            where: A boolean expression over the columns, in DuckDB's dialect.
            columns: The columns to return, in this order; default: all.
            limit: The largest number of rows.
            engine: Where to run; default: the project's engine.
            strategy: How the plan finds the latest cell; default: the project file's choice for this view.
            landed_as_of: Leave out what landed later; reads raw, since other cells may have won then.
            written_as_of: Leave out what was written later; reads raw, too.
            raw_only: Do not read state.
            confirmed: Count only cell facts that a quorum of the replicas has shown; reads raw.
            order_by: The columns to order by, before the key; `-` before a name for descending.
            offset: Leave out so many rows first.

        Raises:
            UsageError: An unknown column, engine or strategy, or an invalid instant or limit.
            EngineError: The engine failed.
        """
        from cdc_views.operations.querying import query_table

        return query_table(
            self, as_of=as_of, where=where, columns=columns, limit=limit, engine=engine, strategy=strategy,
            landed_as_of=landed_as_of, written_as_of=written_as_of, raw_only=raw_only, confirmed=confirmed,
            order_by=order_by, offset=offset,
        )  # fmt: skip

    def write(
        self,
        *,
        out: str | Path | None = None,
        into: str | Path | None = None,
        format: str | None = None,
        overwrite: bool = False,
        **asked: Unpack[QueryOptions],
    ) -> RowsWritten:
        """Write the rows of `query` to a file (`out`) or a Delta table (`into`), in memory that does not grow with their number.

        Rows have no order, unless `limit` is asked for: then they are the first ones of `query`, in its order. Parquet and Delta
        have the columns and types of a serving table; jsonl, json and csv what the command line prints.

        Args:
            out: A path or a URL. The file appears whole, or not at all. On Spark, Parquet on this machine is a folder of part
                files, which its tasks write.
            into: The path or URL of a Delta table, created if it is missing; all rows are in one commit.
            format: parquet, csv, jsonl or json; default: as the name of `out` ends.
            overwrite: Replace what is there. Of tables, only those that `into` wrote.
            asked: As in `query`, `engine`, `raw_only` and `confirmed` included.

        Raises:
            UsageError: Something is there, or as in `query`.
            UnsupportedError: The engine writes no Parquet (BigQuery).
            ConflictError: Somebody else committed to the table meanwhile.
        """
        from cdc_views.operations.writing import write_rows

        return write_rows(self, out=out, into=into, format=format, overwrite=overwrite, **asked)

    def dataframe(self, session: SparkSession, **asked: Unpack[FrameOptions]) -> DataFrame:
        """Return the merged view as a lazy DataFrame of your Spark session, which Spark Connect may be.

        It reads the files of now: state and what has landed since. Later landings show in a new one. `asked` are `as_of`,
        `where`, `columns`, `limit`, `landed_as_of`, `written_as_of`, `strategy` and `raw_only`, as in `query`.

        Raises:
            UsageError: An unknown column or an invalid instant.
            UnsupportedError: `session` is a session of no installed engine.
        """
        from cdc_views.operations.querying import frame_of

        return frame_of(self, session, **asked)

    def choice(self, **asked: Unpack[OrderedOptions]) -> Choice:
        """Return the strategy that `query` with the same arguments takes, with the reason; reads no rows, and raises like it."""
        from cdc_views.operations.querying import choice_of

        return choice_of(self, **asked)

    def materialize(self, *, full: bool = False, engine: str | None = None, now: Instant | None = None) -> Materialization:
        """Bring the table's state up to date; see `cdc_views.operations.materializing.materialize_table`."""
        from cdc_views.operations.materializing import materialize_table

        return materialize_table(self, full=full, engine=engine, now=now)

    def late(self) -> list[LatePart]:
        """Return the parts of facts that landed too late and are in quarantine (rule M2), in the order of landing."""
        from cdc_views.operations.lateness import late_of

        return late_of(self)

    def explain(
        self, key: Mapping[str, Any] | str, *, column: str | Sequence[str] | None = None, as_of: Instant | None = None
    ) -> Explanation:
        """Explain the value of each cell of one row; see `cdc_views.operations.querying.explain_row`."""
        from cdc_views.operations.querying import explain_row

        return explain_row(self, key, column=column, as_of=as_of)

    def history(
        self,
        key: Mapping[str, Any] | str | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] = (),
        as_of: Instant | None = None,
        landed_as_of: Instant | None = None,
        written_as_of: Instant | None = None,
        limit: int | None = None,
        engine: str | None = None,
        strategy: str | Strategy | None = None,
    ) -> History:
        """Return one row per version of a row, with its span of validity; see `cdc_views.operations.history.history_of`."""
        from cdc_views.operations.history import history_of

        return history_of(
            self, key, where=where, columns=columns, as_of=as_of, landed_as_of=landed_as_of, written_as_of=written_as_of,
            limit=limit, engine=engine, strategy=strategy,
        )  # fmt: skip

    def rebuild(
        self, *, engine: str | None = None, accept: bool = False, dry_run: bool = False, with_late: bool = False,
        with_state: bool = False,
    ) -> Rebuilt:  # fmt: skip
        """Build a new state beside the old one, compare, and switch; see `cdc_views.operations.rebuilding.rebuild_table`."""
        from cdc_views.operations.rebuilding import rebuild_table

        return rebuild_table(self, engine=engine, accept=accept, dry_run=dry_run, with_late=with_late, with_state=with_state)

    def switch_back(self) -> int:
        """Read the state before the last switch again; returns its generation."""
        from cdc_views.operations.rebuilding import switch_back

        return switch_back(self)

    def maintain(self, *, retention_hours: int = 168, dry_run: bool = False) -> list[Upkeep]:
        """Merge small files and remove files that nothing reads; see `cdc_views.operations.maintaining.maintain_table`."""
        from cdc_views.operations.maintaining import maintain_table

        return maintain_table(self, retention_hours=retention_hours, dry_run=dry_run)

    def forget(
        self,
        key: Mapping[str, Any] | str,
        *,
        now: datetime | None = None,
        dry_run: bool = False,
        undecodable: Literal["fail", "keep", "drop"] | Undecodable = "fail",
        engine: str | None = None,
        wait: float = 0.0,
    ) -> Erasure:
        """Remove a key from everything kept, and prove it; see `cdc_views.operations.erasing.forgetting.forget_table`."""
        from cdc_views.operations.erasing import forgetting

        return forgetting.forget_table(
            self, key=key, now=now or datetime.now(timezone.utc), dry_run=dry_run,
            undecodable=forgetting.Undecodable(undecodable), engine=engine, wait=wait,
        )  # fmt: skip

    def drop_raw(
        self,
        *,
        older_than: str,
        now: datetime | None = None,
        archive: Path | None = None,
        dry_run: bool = False,
        engine: str | None = None,
        wait: float = 0.0,
    ) -> Dropped:
        """Drop old raw facts that the state covers; see `cdc_views.operations.retention.drop_raw`."""
        from cdc_views.operations.retention import drop_raw

        at = now or datetime.now(timezone.utc)
        return drop_raw(self, older_than=older_than, now=at, archive=archive, dry_run=dry_run, engine=engine, wait=wait)

    def restore_raw(self, archive: Path) -> int:
        """Restore dropped raw facts; see `cdc_views.operations.retention.restore_raw`."""
        from cdc_views.operations.retention import restore_raw

        return restore_raw(self, archive)

    def replicas(self, *, factor: int | None = None, nodes: Sequence[str] = (), silent_after: str = "1d") -> ReplicaReport:
        """Return on how many nodes each cell fact was seen; see `cdc_views.operations.replication.expected_of`, `.replicas`."""
        from cdc_views.operations.replication import expected_of, replicas

        return replicas(self, expected_of(self, factor=factor, nodes=nodes, silent_after=silent_after))

    def validate(
        self,
        *,
        engine: str | None = None,
        as_of: Instant | None = None,
        sample: int = 200,
        seed: int | None = None,
        now: Instant | None = None,
    ) -> Report:
        """Run the table's data tests; see `cdc_views.quality.validating.validate_table`."""
        from cdc_views.quality.validating import validate_table

        return validate_table(self, engine=engine, as_of=as_of, sample=sample, seed=seed, now=now)

    def fidelity(self) -> list[FidelityLine]:
        """Return one verdict per column, in schema order; verdicts on whole rows (`*`) come first."""
        from cdc_views.operations.fidelity import fidelity_of

        return fidelity_of(self)

    def sql(self, dialect: str | None = None, *, strategy: str | Strategy | None = None, style: str | Style = "plain") -> str:
        """Return the statement that creates the view; default dialect: the one of the project's engine.

        With style `macros`, several statements: see `cdc_views.operations.generating.generate_view`.
        """
        from cdc_views.operations.generating import generate_view

        return generate_view(self, dialect, strategy=strategy, style=style)

    def apply(self, *, engine: str | None = None) -> str:
        """Create or replace the view in the engine's catalog; returns the statement that ran, empty if there is no view yet."""
        from cdc_views.operations.applying import apply_view

        return apply_view(self, engine=engine).statement

    def plan(self) -> TablePlan:
        """Return what `apply` would change, and how much data a read has to scan."""
        from cdc_views.operations.applying import plan_view

        return plan_view(self)
