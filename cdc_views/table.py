"""One table of a project, and what can be asked of it.

Arrow, Delta and the engines are imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.damage import names_damage
from cdc_views.errors import ConfigError, UnknownColumnError, UnsupportedError
from cdc_views.instants import Instant, epoch_seconds

if TYPE_CHECKING:
    from cdc_views.api import Project
    from cdc_views.applying import TablePlan
    from cdc_views.engines.base import Read
    from cdc_views.erasing.forgetting import Erasure
    from cdc_views.explaining import Explanation
    from cdc_views.found import Adaptation
    from cdc_views.history import History
    from cdc_views.landing import LandingReport, Progress, ReplayReport, StreamLander
    from cdc_views.lateness import LatePart
    from cdc_views.maintaining import Upkeep
    from cdc_views.materialize import Materialization
    from cdc_views.project import TableConfig
    from cdc_views.quality.checks import Report
    from cdc_views.raw.base import RawFormat, Verdict
    from cdc_views.rebuilding import Rebuilt
    from cdc_views.relation import RawTable, Relation
    from cdc_views.replication import ReplicaReport
    from cdc_views.result import Result
    from cdc_views.retention import Dropped
    from cdc_views.schema import TableSchema
    from cdc_views.strategy import Strategy


@dataclass(frozen=True, slots=True)
class FidelityLine:
    """How far one column of one table's view can be trusted; `waived` is the project file's reason to accept it."""

    table: str
    column: str
    verdict: Verdict
    reason: str
    case: str = ""
    waived: str = ""


@names_damage
@dataclass(frozen=True)
class Table:
    """One table of a project."""

    project: Project
    config: TableConfig

    @property
    def name(self) -> str:
        """Full name, as in the project file."""
        return self.config.name

    @cached_property
    def schema(self) -> TableSchema:
        """The table's schema, read from its file."""
        from cdc_views.project.paths import is_live_source
        from cdc_views.schema_readers import read_schema

        if is_live_source(self.config.schema_):
            raise UnsupportedError(
                f"{self.project.file}: the schema of {self.name} is a live source, which cannot be read yet",
                remedy="save its DDL to a file and name that",
            )
        path = self.project.root / self.config.schema_
        if not path.is_file():
            raise ConfigError(
                f"{self.project.file}: the schema of {self.name}, {path}, is no file; name a CQL, SQL, .avsc or YAML file"
            )
        return read_schema(path, table=self.name, keyspace=self.config.keyspace)

    @property
    def format(self) -> RawFormat:
        """The raw format that the project file names, with its options."""
        from cdc_views.raw.registry import raw_format

        options = self.config.raw.options
        for option, columns in (("scales", options.scales), ("units", options.units)):
            self._check_columns(f"raw.options.{option}", columns)
        return raw_format(self.config.raw.format.value, options.model_dump(mode="json", exclude_unset=True, exclude_none=True))

    @property
    def relation(self) -> Relation:
        """What the columns of the raw table mean, and which types its view shows them in."""
        from cdc_views.sql.casts import ShownRelation

        return ShownRelation(self.schema, self.format.order, tuple(self._overrides().items()))

    def _overrides(self) -> Mapping[str, str]:
        """`columns:` of the project file, checked against the schema."""
        from cdc_views.overrides import misfit

        self._check_columns("columns", self.config.columns)
        for name, wanted in self.config.columns.items():
            if why := misfit(self.schema.column(name), wanted):
                raise ConfigError(f"{self.project.file}: columns: {self.name}: {name!r} {why}")
        return self.config.columns

    @property
    def is_found(self) -> bool:
        """Whether somebody else lands the raw table (`layout: as-found`)."""
        from cdc_views.project.models import Layout

        return self.config.raw.layout is Layout.AS_FOUND

    @property
    def raw(self) -> RawTable:
        """The raw table; of one that somebody else lands the one derived from it, as of the last `adapt`."""
        from cdc_views.places import raw_of

        return raw_of(self)

    @property
    def location(self) -> str:
        """Path or URI of the raw table that the project file names."""
        from cdc_views.places import location_of

        return location_of(self)

    def adapt(self) -> Adaptation | None:
        """Take in what somebody else has landed since, as every read does first; None for a table that we land."""
        from cdc_views.ingest import adapted

        return adapted(self)

    def quarantine_note(self) -> str:
        """How many rows of somebody else's raw table are no events, and why the first is none; empty for no rows."""
        from cdc_views.ingest import quarantine_note

        return quarantine_note(self)

    def land(self, *files: str | Path, now: datetime | None = None, progress: Progress | None = None) -> LandingReport:
        """Append event files; see `cdc_views.landing.land`. `now` defaults to the clock."""
        from cdc_views.ingest import land_files

        return land_files(self, files, now=now or datetime.now(timezone.utc), progress=progress)

    def stream(self, name: str, *, shown: int | None = None) -> StreamLander:
        """Return what lands the stream `name` into the raw table, which is created if it is not there.

        Args:
            name: The stream's name; each of a table has a position of its own.
            shown: How many quarantined events a report of it names; default: a few.
        """
        from cdc_views.ingest import stream_into

        return stream_into(self, name, shown=shown)

    def replay(self, *, now: datetime | None = None) -> ReplayReport:
        """Land again what waits in quarantine; see `cdc_views.landing.replay`. `now` defaults to the clock."""
        from cdc_views.ingest import replay_waiting

        return replay_waiting(self, now=now or datetime.now(timezone.utc))

    def query(
        self,
        *,
        as_of: Instant | None = None,
        where: str | None = None,
        columns: Sequence[str] = (),
        limit: int | None = None,
        engine: str | None = None,
        strategy: str | Strategy | None = None,
        landed_as_of: Instant | None = None,
        written_as_of: Instant | None = None,
        raw_only: bool = False,
        confirmed: bool = False,
    ) -> Result:
        """Return the rows of the merged table; needs no view and no state, and reads less where there is a state.

        Args:
            as_of: The clock that decides what has expired (rule C4); default: now.
            where: One boolean expression over the columns, in DuckDB's dialect.
            columns: Names of the columns wanted, in order; default: all.
            limit: At most so many rows.
            engine: Where to run; default: the project's engine.
            strategy: How the latest cell is found; default: the project file's choice for this view.
            landed_as_of: Leave out what landed later.
            written_as_of: Leave out what was written later.
            raw_only: Do not read state. The last two read raw in any case: losers may win then.
            confirmed: Only cell facts that a quorum of the replicas has shown count; reads raw.

        Raises:
            UsageError: An unknown column, engine or strategy, or an instant or limit that is none.
            EngineError: The engine failed.
        """
        from cdc_views.conditions import checked
        from cdc_views.ingest import readable
        from cdc_views.materializing import sources_for
        from cdc_views.reading import blaming_condition, bounds_of, checked_limit, columns_of, strategy_of
        from cdc_views.replication import confirmed_only
        from cdc_views.result import Result
        from cdc_views.retention import check_raw_is_whole

        checked(where)
        options = {"where": where, "limit": checked_limit(limit), "strategy": strategy_of(self, strategy)}
        options |= (bounds := bounds_of(self, landed=landed_as_of, written=written_as_of))
        wanted = columns_of(self, columns)
        clock = epoch_seconds(datetime.now(timezone.utc) if as_of is None else as_of)
        if raw_only or confirmed:
            check_raw_is_whole(self, what="what raw alone shows")
        with readable(self) as (raw, note), self.project.engine(engine) as opened, blaming_condition(where):
            sources = None if raw_only or confirmed else sources_for(self, raw, options, as_of=None if as_of is None else clock)
            with confirmed_only(self, raw, confirmed=confirmed, landed_as_of=bounds["landed_as_of"]) as facts:
                exact = opened.read(_read(facts, as_of=clock, columns=wanted, options={**options, "sources": sources}))
        return Result(self.relation, wanted, exact, clock, note, self.config.columns)

    @property
    def serving_location(self) -> str | None:
        """Path of the serving table; None where the project file asks for none."""
        from cdc_views.places import serving_location

        return serving_location(self)

    def materialize(self, *, full: bool = False, engine: str | None = None, now: Instant | None = None) -> Materialization:
        """Bring the table's state up to date with what landed since, then its serving table if it is to have one.

        Args:
            full: Build both from all of raw.
            engine: Where to run; default: the project's engine.
            now: The instant whose rows the serving table shows (rule C4), and before which `materialize.lateness` counts
                what may be forgotten (M2); default: the clock.

        Raises:
            UsageError: Nothing has landed yet.
            ConflictError: Other runs kept committing first; nothing is lost, run it again.
        """
        from cdc_views.materializing import materialize_table

        return materialize_table(self, full=full, engine=engine, now=now)

    def late(self) -> list[LatePart]:
        """Return what landed too late and is in quarantine (rule M2), part by part, in the order of landing."""
        from cdc_views.lateness import late_of

        return late_of(self)

    def explain(self, key: Mapping[str, Any] | str, *, column: str | None = None, as_of: Instant | None = None) -> Explanation:
        """Return every candidate for the cells of one row, and the rule that decided against each loser.

        Args:
            key: The row's key as in `query`'s JSON: a JSON text, or a mapping of its parsed values. Only the
                partition columns: the partition's static row.
            column: Only this column; default: all.
            as_of: The clock that decides what has expired; default: now.
        """
        from cdc_views.explaining import explain
        from cdc_views.ingest import check_landed
        from cdc_views.landing import open_raw
        from cdc_views.reading import blaming_files
        from cdc_views.retention import check_raw_is_whole

        check_landed(self)
        check_raw_is_whole(self, what="what `explain` says of losers")
        clock = epoch_seconds(datetime.now(timezone.utc) if as_of is None else as_of)
        with blaming_files(self.raw.location):
            return explain(open_raw(self.raw), self.relation, key=key, column=column, now=clock)

    def history(self, key: Mapping[str, Any] | str | None = None, **asked: Any) -> History:
        """Return one row per version of a row, with the span in which it was valid; see `cdc_views.history.history_of`."""
        from cdc_views.history import history_of

        return history_of(self, key, **asked)

    def rebuild(
        self, *, engine: str | None = None, accept: bool = False, dry_run: bool = False, with_late: bool = False,
        with_state: bool = False,
    ) -> Rebuilt:  # fmt: skip
        """Build state from scratch beside the old one, compare, and switch; see `cdc_views.rebuilding.rebuild_table`."""
        from cdc_views.rebuilding import rebuild_table

        return rebuild_table(self, engine=engine, accept=accept, dry_run=dry_run, with_late=with_late, with_state=with_state)

    def switch_back(self) -> int:
        """Read the state before the last switch again; returns its generation."""
        from cdc_views.rebuilding import switch_back

        return switch_back(self)

    def maintain(self, *, retention_hours: int = 168, dry_run: bool = False) -> list[Upkeep]:
        """Merge small files and remove what nothing reads any more; see `cdc_views.maintaining.maintain_table`."""
        from cdc_views.maintaining import maintain_table

        return maintain_table(self, retention_hours=retention_hours, dry_run=dry_run)

    def forget(self, key: Mapping[str, Any] | str, *, now: datetime | None = None, **options: Any) -> Erasure:
        """Remove a key from all that is kept, and prove it; see `cdc_views.erasing.forgetting.forget_table`."""
        from cdc_views.erasing.forgetting import forget_table

        return forget_table(self, key=key, now=now or datetime.now(timezone.utc), **options)

    def drop_raw(self, *, older_than: str, now: datetime | None = None, **options: Any) -> Dropped:
        """Drop raw facts that landed long ago and that the state covers; see `cdc_views.retention.drop_raw`."""
        from cdc_views.retention import drop_raw

        return drop_raw(self, older_than=older_than, now=now or datetime.now(timezone.utc), **options)

    def restore_raw(self, archive: Path) -> int:
        """Put back what was dropped from raw; see `cdc_views.retention.restore_raw`."""
        from cdc_views.retention import restore_raw

        return restore_raw(self, archive)

    def replicas(self, *, factor: int | None = None, nodes: Sequence[str] = (), silent_after: str = "1d") -> ReplicaReport:
        """Return on how many nodes each cell fact was seen; see `cdc_views.replication.expected_of`, `.replicas`."""
        from cdc_views.replication import expected_of, replicas

        return replicas(self, expected_of(self, factor=factor, nodes=nodes, silent_after=silent_after))

    def validate(self, **options: Any) -> Report:
        """Run the table's data tests; see `cdc_views.quality.validating.validate_table`."""
        from cdc_views.quality.validating import validate_table

        return validate_table(self, **options)

    def fidelity(self) -> list[FidelityLine]:
        """Return one verdict a column, in schema order, preceded by those of `*` (whole rows)."""
        waive = self.config.fidelity.waive
        self._check_columns("fidelity.waive", [name for name in waive if name != "*"])
        return [
            FidelityLine(self.name, line.column, line.verdict, line.reason, line.case, waive.get(line.column, ""))
            for line in self.format.fidelity(self.schema)
        ]

    def sql(self, dialect: str | None = None, *, strategy: str | Strategy | None = None) -> str:
        """Return the statement that creates the view, by default in the dialect of the project's engine."""
        from cdc_views.applying import view_sql
        from cdc_views.reading import strategy_of

        self.adapt()
        return view_sql(self, dialect or self.project.config.engine.value, strategy=strategy_of(self, strategy))

    def apply(self, *, engine: str | None = None) -> str:
        """Create or replace the view in the engine's catalog; returns the statement that did it."""
        from cdc_views.applying import apply_table

        self._check_view_name()
        self.adapt()
        return apply_table(self, engine=engine)

    def refresh(self) -> bool:
        """Apply again a view that shows the raw table as it was when it was applied; returns whether there was one.

        DuckDB's views name the files of one snapshot, so they must follow each landing; others read the table itself.
        """
        from cdc_views.applying import was_applied

        is_stale = self.project.config.engine.value == "duckdb" and was_applied(self)
        if is_stale:
            self.apply()
        return is_stale

    def plan(self) -> TablePlan:
        """Return what `apply` would change, and how much there is to read."""
        from cdc_views.applying import plan_table

        self.adapt()
        return plan_table(self)

    def _check_view_name(self) -> None:
        """Refuse to replace another table's view whose name differs in case alone."""
        mine = f"{self.config.keyspace}.{self.config.view_name}"
        for other in self.project.config.tables:
            theirs = f"{other.keyspace}.{other.view_name}"
            if other.name != self.name and theirs.casefold() == mine.casefold():
                raise ConfigError(
                    f"{self.project.file}: views {mine!r} and {theirs!r} differ in case alone, which engines do not tell apart; "
                    f"give one another name (`view: {{name: …}}` of {self.name})"
                )

    def _check_columns(self, key: str, columns: Iterable[str]) -> None:
        """Refuse a name under `key` of the project file that the table does not have."""
        for name in columns:
            if not self.schema.has(name):
                known = [column.name for column in self.schema.columns]
                raise UnknownColumnError(table=f"{self.project.file}: {key}: {self.name}", column=name, known=known)


def _read(raw: RawTable, *, as_of: int, columns: tuple[str, ...], options: Mapping[str, Any]) -> Read:
    from cdc_views.engines.base import Read

    return Read(raw, as_of, columns=columns, **options)
