"""A Great Expectations project, ours and the user's: suites, a checkpoint per table, Data Docs.

=================  ===================================================================================
suite              content
=================  ===================================================================================
`TABLE`            ours, written again each time: built-in expectations of the merged rows
`TABLE.counts`     ours, written again each time: the counts of `validate`, as one row
`TABLE.custom`     the user's, on the merged rows: created once, run each time, never rewritten
=================  ===================================================================================

The stored files are plain Great Expectations, so the project opens, runs and saves without our code. Rows stay in memory. We read
the user's suite as stored JSON, because a load and a save would drop an expectation of a class that is not imported here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.model.extras import needs
from cdc_views.model.severity import Severity
from cdc_views.model.whole_files import write_whole
from cdc_views.operations.querying import query_table
from cdc_views.quality.checks import Check, Report

with needs("`validate` without --no-docs", extra="quality"):
    import great_expectations as gx
    import pandas as pd
    from great_expectations.checkpoint.actions import UpdateDataDocsAction
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import get_expectation_impl

    from cdc_views.quality.expectations import OWNER, counts_of, expectations_of, suite_of

if TYPE_CHECKING:
    import pyarrow as pa

    from cdc_views.operations.context import TableContext


_SITE = "local_site"
_SOURCE = "cdc-views"
_BEFORE = "expect_nothing_broken"
"""The type of each expectation that earlier versions wrote."""
_SUITE = Check("expectations", "Great Expectations finds the rows as the suite of cdc-views expects them", unit="expectations")
_LOADED = Check("custom.can_be_loaded", "each expectation of the suite is of a class that is known here", unit="expectations")


def publish(
    reports: Iterable[tuple[TableContext, Report]], folder: Path, *, with_values: bool, most_rows: int
) -> tuple[Path, list[Report], dict[str, int]]:
    """Run a checkpoint per table in the Great Expectations project in `folder`, and write its Data Docs.

    Creates a missing folder, and keeps it between runs. Data Docs show values of failing rows only `with_values`, otherwise
    counts, rules and keys. For a table of more than `most_rows`, only counts are tested.

    Returns:
        The first page of the Data Docs; the reports, with one more check per expectation of the user and one for ours that
        failed; and, by table, how many expectations were moved from our suite into the user's.

    Raises:
        UnsupportedError: The user has a suite for a table whose rows are not read here.
        ConfigError: A stored suite cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=str(folder))
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]  # a dict is what its store reads
    runs = [_Run(context, folder, table, report, with_values, most_rows) for table, report in reports]
    moved = {run.report.table: run.keep_theirs() for run in runs}
    judged = [run.judged() for run in runs]
    context.build_data_docs(site_names=[_SITE])
    (site,) = context.get_docs_sites_urls(site_name=_SITE)
    return Path(str(site["site_url"]).removeprefix("file://")), judged, moved


@dataclass(frozen=True, slots=True)
class _Run:
    context: Any
    folder: Path
    table: TableContext
    report: Report
    with_values: bool
    most_rows: int

    @property
    def custom(self) -> str:
        return f"{self.report.table}.custom"

    def keep_theirs(self) -> int:
        """Create a missing user's suite, and move expectations that the user added to our suite into it; returns how many."""
        self._check_loadable()
        ours, file = stored_expectations(self.folder, self.report.table), _suite_file(self.folder, self.custom)
        added = [e for e in ours if e.get("type") != _BEFORE and OWNER not in (e.get("meta") or {})]
        if not file.exists():  # an unloadable suite is not listed, and must stay
            self.context.suites.add(gx.ExpectationSuite(self.custom))
        if added:
            suite = json.loads(file.read_text("utf-8"))
            known = {expectation.get("id") for expectation in suite["expectations"]}
            suite["expectations"] += [expectation for expectation in added if expectation.get("id") not in known]
            write_whole(file, json.dumps(suite, indent=2, ensure_ascii=False) + "\n")
        return len(added)

    def _check_loadable(self) -> None:
        """Refuse a suite with an unknown expectation, because Great Expectations would save the suite without it."""
        for stored in stored_expectations(self.folder, self.custom):
            try:
                get_expectation_impl(str(stored.get("type")))
            except ExpectationNotFoundError as error:
                file = _suite_file(self.folder, self.custom)
                raise ConfigError(f"{file}: cannot be loaded: {error}; take that expectation out, or use --no-docs") from error

    def judged(self) -> Report:
        name = self.report.table
        counts = self._definition(f"{name}.counts", asset=f"{name}.counts", suite=suite_of(self.report, f"{name}.counts"))
        self._ran(f"{name}.counts", [counts], pd.DataFrame(counts_of(self.report.checks)))
        rows = self._rows()
        if rows is None:
            return self.report
        ours = self._definition(name, asset=name, suite=gx.ExpectationSuite(name, expectations_of(self.table)))
        theirs = self._definition(self.custom, asset=name, suite=None)
        found = self._ran(name, [ours, theirs], rows.to_pandas(types_mapper=pd.ArrowDtype))
        results = {one.suite_name: one.results for one in found.run_results.values()}
        checks = (*_failed(results[name]), *_theirs(results[self.custom], with_values=self.with_values))
        lost = _unloadable(stored_expectations(self.folder, self.custom), results[self.custom])
        return replace(self.report, checks=(*self.report.checks, *checks, *lost))

    def _rows(self) -> pa.Table | None:
        """Return the merged rows of the report; if remote or too many, None, or an error if the user has a suite for them."""
        why = f"are in {self.table.project.engine_plugin.title}" if self.table.project.is_remote else ""
        rows = None
        if not why:
            most = self.most_rows + 1
            rows = query_table(self.table, as_of=self.report.as_of, limit=most, engine=self.report.engine).to_arrow()
            why = f"are more than {self.most_rows:,}" if rows.num_rows > self.most_rows else ""
        if why and stored_expectations(self.folder, self.custom):
            raise UnsupportedError(
                f"{self.report.table}: its rows {why}, and the suite {self.custom} is to judge them",
                remedy="raise --docs-rows where they fit in memory, give Great Expectations a data source of its own for them, "
                "or use --no-docs",
            )
        return None if why else rows

    def _definition(self, name: str, *, asset: str, suite: Any) -> Any:
        """Return the validation of a suite (None: the stored one of this name) on an asset that gets its rows when it runs."""
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
        form: dict[str, Any] = {"result_format": "BASIC", "partial_unexpected_count": 20 if self.with_values else 0}
        checkpoint = gx.Checkpoint(
            name=name, validation_definitions=definitions, actions=[UpdateDataDocsAction(name="docs")], result_format=form
        )
        run = RunIdentifier(run_name=f"cdc-views validate, raw version {self.report.raw_version}")
        kept = self.context.checkpoints.add_or_update(checkpoint)
        return kept.run(batch_parameters={"dataframe": frame}, run_id=run)


def _failed(results: Sequence[Any]) -> Iterator[Check]:
    failed = [result for result in results if not result.success]
    if failed:
        worst = min(map(_severity, failed), key=lambda one: one is not Severity.ERROR)
        yield replace(_SUITE, severity=worst).found([*map(_name, failed)])


def _theirs(results: Sequence[Any], *, with_values: bool) -> Iterator[Check]:
    names = Counter[str]()
    for result in results:
        name, config, found = _name(result), result.expectation_config, result.result or {}
        names[name] += 1
        count = found.get("unexpected_count")
        values = [*map(str, found.get("partial_unexpected_list", ()))] if with_values else []
        asked = {key: v for key, v in config.kwargs.items() if key not in ("batch_id", "column") and v is not None}
        check = Check(
            f"custom.{name}" + (f".{names[name]}" if names[name] > 1 else ""),
            str(config.description or f"{config.type} {asked or ''}".strip()),
            _severity(result),
            unit="rows" if count else "expectations",
        )
        if result.success:
            yield check.found(values, broken=0)
        else:
            yield check.found(values or _raised(result), broken=int(count or 1))


def _unloadable(stored: Sequence[dict[str, Any]], results: Sequence[Any]) -> Iterator[Check]:
    """Yield a failed check if expectations of the user's suite did not run: Great Expectations skips unknown ones."""
    lost = Counter(str(expectation.get("type")) for expectation in stored)
    lost.subtract(result.expectation_config.type for result in results)
    if kinds := list((+lost).elements()):
        yield _LOADED.found(kinds)


def _name(result: Any) -> str:
    config = result.expectation_config
    column = config.kwargs.get("column")
    return str(config.type).removeprefix("expect_") + (f".{column}" if column else "")


def _raised(result: Any) -> list[str]:
    """Return why an expectation could not run, such as a missing column; empty if it ran and was not met."""
    details = result.exception_info or {}
    parts = [details] if "raised_exception" in details else [part for part in details.values() if isinstance(part, dict)]
    return [str(part["exception_message"]).splitlines()[0] for part in parts if part.get("raised_exception")][:1]


def _severity(result: Any) -> Severity:
    severity = result.expectation_config.severity
    return Severity.ERROR if str(getattr(severity, "value", severity)) == "critical" else Severity.WARNING


def _suite_file(folder: Path, name: str) -> Path:
    """Return the file of a suite: Great Expectations turns dots into folders."""
    *folders, last = name.split(".")
    return folder.joinpath("gx", "expectations", *folders, f"{last}.json")


def stored_expectations(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the expectations of a stored suite as stored, empty without a suite; raises `ConfigError` for an invalid file."""
    file = _suite_file(folder, name)
    try:
        found: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["expectations"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: is no suite of Great Expectations ({error!r}); mend it, or move it away") from error
    return found
