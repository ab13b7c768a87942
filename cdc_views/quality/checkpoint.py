"""A project of Great Expectations that is ours and the user's: suites, a checkpoint per table, Data Docs.

=================  ===================================================================================
suite              is
=================  ===================================================================================
`TABLE`            ours, written anew each time: built-in expectations of the merged rows
`TABLE.counts`     ours, written anew each time: what `validate` counted, over one row of counts
`TABLE.custom`     the user's, of the merged rows: made once, run each time, never rewritten
=================  ===================================================================================

Everything stored is Great Expectations' own, so the project opens, runs and saves without an import of ours. Rows are given
to it in memory and not kept.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.model.extras import needs
from cdc_views.model.severity import Severity
from cdc_views.operations.querying import query_table
from cdc_views.quality.checks import MOST_PLACES, Check, Report
from cdc_views.quality.theirs import added_to_ours, custom_name, move_to_custom, stored_expectations, suite_file

if TYPE_CHECKING:
    import pyarrow as pa

    from cdc_views.operations.context import TableContext


_SITE = "local_site"
_SOURCE = "cdc-views"
MOST_ROWS = 1_000_000
"""Of a table whose merged rows pandas is given, unless asked for more."""


@dataclass(frozen=True, slots=True)
class Published:
    """What Great Expectations made of some reports.

    Attributes:
        index: The first page of the Data Docs.
        reports: The reports, with a check for each of the user's expectations and one for those of ours that failed.
        moved: For each table, how many expectations were moved from our suite into the user's.
    """

    index: Path
    reports: tuple[Report, ...]
    moved: dict[str, int]


def publish(
    reports: Iterable[tuple[TableContext, Report]], folder: Path, *, with_values: bool = False, most_rows: int = MOST_ROWS
) -> Published:
    """Run a checkpoint per table in the project of Great Expectations in `folder`, and write its Data Docs.

    Args:
        reports: Tables, and what their data tests found.
        folder: The project's; made where it is not there, kept from run to run.
        with_values: Whether Data Docs may show values of rows that fail; without it counts, rules and keys alone.
        most_rows: Of a table; one of more is judged by its counts alone.

    Raises:
        MissingExtraError: Great Expectations is not installed.
        UnsupportedError: The user has a suite for a table whose rows are not brought here.
        ConfigError: A stored suite cannot be read.
    """
    with _quietly():
        with needs("`validate` without --no-docs", extra="quality"):
            import great_expectations as gx

            import cdc_views.quality.expectations  # noqa: F401  (suites of earlier versions name its class)
        folder.mkdir(parents=True, exist_ok=True)
        context = gx.get_context(mode="file", project_root_dir=str(folder))
        context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]  # a dict is what its store reads
        runs = [_Run(context, folder, table, report, with_values=with_values, most_rows=most_rows) for table, report in reports]
        moved = {run.report.table: run.keep_theirs() for run in runs}
        judged = tuple(run.judged() for run in runs)
        context.build_data_docs(site_names=[_SITE])
    return Published(_index(context), judged, {name: count for name, count in moved.items() if count})


@dataclass(frozen=True, kw_only=True)
class _Options:
    with_values: bool
    most_rows: int


class _Run:
    """One table in a project of Great Expectations."""

    def __init__(self, context: Any, folder: Path, table: TableContext, report: Report, **options: Any) -> None:
        self.context, self.folder, self.table, self.report = context, folder, table, report
        self.options = _Options(**options)

    @property
    def custom(self) -> str:
        return custom_name(self.report.table)

    def keep_theirs(self) -> int:
        """Make the user's suite where there is none, and move into it what was added to ours; returns how many."""
        import great_expectations as gx

        from cdc_views.quality.suites import OWNER

        self._check_loadable()
        added = added_to_ours(self.folder, self.report.table, owner=OWNER)
        if not suite_file(self.folder, self.custom).exists():  # one that cannot be loaded is not listed, and must stay
            self.context.suites.add(gx.ExpectationSuite(self.custom))
        if added:
            move_to_custom(self.folder, self.custom, added)
        return len(added)

    def _check_loadable(self) -> None:
        """Refuse a suite of an unknown expectation before it is touched: Great Expectations would save it without that."""
        from great_expectations.exceptions.exceptions import ExpectationNotFoundError
        from great_expectations.expectations.registry import get_expectation_impl

        for stored in stored_expectations(self.folder, self.custom):
            try:
                get_expectation_impl(str(stored.get("type")))
            except ExpectationNotFoundError as error:
                file = suite_file(self.folder, self.custom)
                raise ConfigError(f"{file}: cannot be loaded: {error}; take that expectation out, or use --no-docs") from error

    def judged(self) -> Report:
        """Run the checkpoints of the counts and of the rows; returns the report with what they found."""
        import pandas as pd

        from cdc_views.quality.expectations import counts_of, suite_of

        name = self.report.table
        counts = self._definition(f"{name}.counts", asset=f"{name}.counts", suite=suite_of(self.report, f"{name}.counts"))
        self._ran(f"{name}.counts", [counts], pd.DataFrame(counts_of(self.report.checks)))
        rows = self._rows()
        return self.report if rows is None else self._rows_judged(rows)

    def _rows_judged(self, rows: pa.Table) -> Report:
        import great_expectations as gx
        import pandas as pd

        from cdc_views.quality.suites import expectations_of

        name = self.report.table
        ours = self._definition(name, asset=name, suite=gx.ExpectationSuite(name, expectations_of(self.table)))
        theirs = self._definition(self.custom, asset=name, suite=None)
        found = self._ran(name, [ours, theirs], rows.to_pandas(types_mapper=pd.ArrowDtype))
        outcomes = [
            ExpectationOutcome(result.suite_name == self.custom, one.expectation_config, one)
            for result in found.run_results.values()
            for one in result.results
        ]
        lost = unloadable(stored_expectations(self.folder, self.custom), outcomes)
        return replace(
            self.report, checks=(*self.report.checks, *checks_of(outcomes, with_values=self.options.with_values), *lost)
        )

    def _rows(self) -> pa.Table | None:
        """The merged rows that the report is about; None where they are not brought here, which no suite of theirs may mind."""
        why = f"are in {self.table.project.engine_plugin.title}" if self.table.project.is_remote else ""
        rows = None
        if not why:
            most = self.options.most_rows + 1
            rows = query_table(self.table, as_of=self.report.as_of, limit=most, engine=self.report.engine).to_arrow()
            why = f"are more than {self.options.most_rows:,}" if rows.num_rows > self.options.most_rows else ""
        if why and stored_expectations(self.folder, self.custom):
            raise UnsupportedError(
                f"{self.report.table}: its rows {why}, and the suite {self.custom} is to judge them",
                remedy="raise --docs-rows where they fit in memory, give Great Expectations a data source of its own for them, "
                "or use --no-docs",
            )
        return None if why else rows

    def _definition(self, name: str, *, asset: str, suite: Any) -> Any:
        """The validation of a suite, None: the stored one of that name, over an asset that is given its rows when it runs."""
        import great_expectations as gx

        kept = self.context.suites.get(name) if suite is None else self.context.suites.add_or_update(suite)
        definition = gx.ValidationDefinition(name=name, data=self._batch(asset), suite=kept)
        return self.context.validation_definitions.add_or_update(definition)

    def _batch(self, asset: str) -> Any:
        sources = self.context.data_sources
        source = sources.get(_SOURCE) if _SOURCE in sources.all() else sources.add_pandas(_SOURCE)
        is_known = asset in source.get_asset_names()
        made = source.get_asset(asset) if is_known else source.add_dataframe_asset(asset)
        if "all" in {one.name for one in made.batch_definitions}:
            return made.get_batch_definition("all")
        return made.add_batch_definition_whole_dataframe("all")

    def _ran(self, name: str, definitions: list[Any], frame: Any) -> Any:
        """Store a checkpoint and run it."""
        import great_expectations as gx
        from great_expectations.checkpoint.actions import UpdateDataDocsAction
        from great_expectations.core.run_identifier import RunIdentifier

        form: dict[str, Any] = {"result_format": "BASIC", "partial_unexpected_count": 20 if self.options.with_values else 0}
        checkpoint = gx.Checkpoint(
            name=name, validation_definitions=definitions, actions=[UpdateDataDocsAction(name="docs")], result_format=form
        )
        run = RunIdentifier(run_name=f"cdc-views validate, raw version {self.report.raw_version}")
        kept = self.context.checkpoints.add_or_update(checkpoint)
        return kept.run(batch_parameters={"dataframe": frame}, run_id=run)


def _index(context: Any) -> Path:
    sites = context.get_docs_sites_urls(site_name=_SITE)
    return Path(str(sites[0]["site_url"]).removeprefix("file://"))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Great Expectations' progress bars, warnings and logs: what matters is in the report."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


_SUITE = Check("expectations", "Great Expectations finds the rows as the suite of cdc-views expects them", unit="expectations")
_LOADED = Check("custom.can_be_loaded", "each expectation of the suite is of a class that is known here", unit="expectations")


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """One expectation and its result, as Great Expectations gives them."""

    is_theirs: bool
    config: Any
    result: Any

    @property
    def name(self) -> str:
        """Its type and column, in short."""
        column = self.config.kwargs.get("column")
        return str(self.config.type).removeprefix("expect_") + (f".{column}" if column else "")


def checks_of(outcomes: Sequence[ExpectationOutcome], *, with_values: bool) -> Iterator[Check]:
    """Yield a check for each expectation of the user's, and one for all of ours that failed."""
    failed = [outcome for outcome in outcomes if not outcome.is_theirs and not outcome.result.success]
    if failed:
        worst = min((_severity(outcome) for outcome in failed), key=lambda one: one is not Severity.ERROR)
        where = tuple(outcome.name for outcome in failed)[:MOST_PLACES]
        yield Check(_SUITE.name, _SUITE.rule, worst, len(failed), _SUITE.unit, where)
    names: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.is_theirs:
            names[outcome.name] = names.get(outcome.name, 0) + 1
            yield _check(outcome, number=names[outcome.name], with_values=with_values)


def unloadable(stored: Sequence[dict[str, Any]], outcomes: Sequence[ExpectationOutcome]) -> tuple[Check, ...]:
    """Return a failed check where expectations of the user's suite did not run: Great Expectations leaves unknown ones out."""
    ran = [outcome.config.type for outcome in outcomes if outcome.is_theirs]
    lost = [str(expectation.get("type")) for expectation in stored]
    for kind in ran:
        if kind in lost:
            lost.remove(kind)
    return (
        (Check(_LOADED.name, _LOADED.rule, Severity.ERROR, len(lost), _LOADED.unit, tuple(lost[:MOST_PLACES])),) if lost else ()
    )


def _check(outcome: ExpectationOutcome, *, number: int, with_values: bool) -> Check:
    found = outcome.result.result or {}
    count = found.get("unexpected_count")
    is_met = bool(outcome.result.success)
    values = tuple(str(value) for value in found.get("partial_unexpected_list", ()))[:MOST_PLACES] if with_values else ()
    asked = {
        key: value for key, value in outcome.config.kwargs.items() if key not in ("batch_id", "column") and value is not None
    }
    return Check(
        f"custom.{outcome.name}" + (f".{number}" if number > 1 else ""),
        str(outcome.config.description or f"{outcome.config.type} {asked or ''}".strip()),
        _severity(outcome),
        0 if is_met else int(count or 1),
        "rows" if count else "expectations",
        values or (() if is_met else _raised(outcome)),
    )


def _raised(outcome: ExpectationOutcome) -> tuple[str, ...]:
    """What hindered an expectation, such as a column that is not there; nothing where it was only not met."""
    details = outcome.result.exception_info or {}
    parts = [details] if "raised_exception" in details else [part for part in details.values() if isinstance(part, dict)]
    return tuple(str(part["exception_message"]).splitlines()[0] for part in parts if part.get("raised_exception"))[:1]


def _severity(outcome: ExpectationOutcome) -> Severity:
    return (
        Severity.ERROR
        if str(getattr(outcome.config.severity, "value", outcome.config.severity)) == "critical"
        else Severity.WARNING
    )
