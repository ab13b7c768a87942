"""`validate` and `report`: the data tests of the tables, and a static site of one run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.log import log, quietly
from cdc_views.cli.printing import fields_of
from cdc_views.cli.run_history import RunClock
from cdc_views.cli.shared import AsOfOption, EngineOption, Request, check_writable, shared
from cdc_views.cli.textfile import TableGauges
from cdc_views.errors import CdcViewsError, UsageError, choose_one
from cdc_views.model.extras import is_installed
from cdc_views.storage.places import Place, on_this_machine

if TYPE_CHECKING:
    from cdc_views.api import Project
    from cdc_views.quality.checks import Check, Report
    from cdc_views.table import Table

_COLUMNS = ("table", "check", "status", "severity", "result")
_TOLD = ("status", "severity")
_SEVERITIES = ("warning", "error")
PREFIX = "cdc_views_validate_"
HELP = {
    "last_run_timestamp_seconds": "When the last run ended",
    "tests": "Tests that the last run made",
    "failed_tests": "Tests of severity error that failed in the last run",
    "failed_warnings": "Tests of severity warning that failed in the last run",
}
_REPORT_COLUMNS = ("table", "page", "passed", "failed", "warnings", "skipped")


@shared("project", "select", "format")
def validate(
    asked: Request,
    *,
    engine: EngineOption = None,
    as_of: AsOfOption = None,
    fail_on: Annotated[
        str, typer.Option(metavar="warning|error", help="Exit 1 if a test of this severity, or above, fails.")
    ] = "error",
    sample: Annotated[int, typer.Option(min=0, metavar="N", help="Recompute at most N partitions by the rules.")] = 200,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Selects the partitions; default: others after each landing.")
    ] = None,
    contract: Annotated[Path | None, typer.Option(metavar="FILE", help="Also test the rules of a data contract (ODCS).")] = None,
    docs: Annotated[
        bool | None, typer.Option("--docs/--no-docs", help="Run your Great Expectations too. Default: where it is installed.")
    ] = None,
    docs_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Give Great Expectations tables of at most N rows.")
    ] = 1_000_000,
    with_values: Annotated[
        bool, typer.Option("--with-values", help="Show values of rows that break your own expectations.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.")] = None,
    metrics: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a .prom file.")] = None,
) -> None:
    """Run the data tests of each table; exit code 1 if one fails."""
    from cdc_views.model.severity import Severity

    if fail_on not in _SEVERITIES:
        raise UsageError(f"--fail-on is {fail_on!r}; {choose_one(fail_on, _SEVERITIES)}")
    gauges = _outputs(asked, metrics, {"--junit": junit, "--json": json_file})
    run, clock, tables = _validation(contract), RunClock("validate"), asked.tables
    reports = _tested(asked, clock, partial(run, engine=engine, as_of=as_of, sample=sample, seed=seed))
    if _is_wanted(asked.project) if docs is None else docs:
        reports = _published(list(zip(tables, reports, strict=True)), asked.project, with_values=with_values, most_rows=docs_rows)
    _keep(clock, asked.project, reports, gauges)
    _print(asked, reports)
    _write(reports, junit=junit, json_file=json_file)
    _complain([(report.table, check) for report in reports for check in report.failed(Severity(fail_on))])


def _tested(asked: Request, clock: RunClock, run: Callable[[Table], Report]) -> list[Report]:
    """Run the tests of each table; the record of a run that fails has the table for which it did."""
    reports = []
    for table in asked.tables:
        try:
            reports.append(run(table))
        except CdcViewsError as error:
            clock.keep_failure(asked.project, table.name, error)
            raise
    return reports


def _outputs(asked: Request, metrics: Path | None, files: dict[str, Path | None]) -> TableGauges:
    """Check every file that the run is to write, and return its metrics."""
    check_writable(files)
    return TableGauges(PREFIX, HELP, metrics).begin("--metrics", {table.name for table in asked.project.tables})


def _print(asked: Request, reports: Sequence[Report]) -> None:
    checks = [(report.table, check) for report in reports for check in report.checks]
    asked.print(_COLUMNS, ({"table": t, "check": c.name, **fields_of(c, _TOLD), "result": c.line()} for t, c in checks))


def _keep(clock: RunClock, loaded: Project, reports: Sequence[Report], gauges: TableGauges) -> None:
    """Leave the record of the run, and its metrics."""
    from cdc_views.model.severity import Severity
    from cdc_views.pages.checking import assertions_of, figures_of

    clock.keep(loaded, {report.table: figures_of(report) for report in reports}, tests=assertions_of(reports))
    for report in reports:
        errors = len(report.failed(Severity.ERROR))
        found = {
            "last_run_timestamp_seconds": time.time(),
            "tests": len(report.checks),
            "failed_tests": errors,
            "failed_warnings": len(report.failed(Severity.WARNING)) - errors,
        }
        gauges.values |= {(name, report.table): float(value) for name, value in found.items()}
    gauges.publish()


def _complain(failed: Sequence[tuple[str, Check]]) -> None:
    for table, check in failed:
        log.error(f"{table}: {check.name} ({check.rule}) {check.line()}")
    if failed:
        raise typer.Exit(1)


def _validation(contract: Path | None) -> Callable[..., Report]:
    if contract is None:
        from cdc_views.quality.validating import validate_table

        return validate_table
    from cdc_views.export.contracts import read_contract
    from cdc_views.export.contracts.comparing import validate_with

    return partial(validate_with, read_contract(contract))


def _is_wanted(loaded: Project) -> bool:
    """Whether Great Expectations runs unasked: where suites may be, its absence is an error and no silence."""
    if is_installed("great_expectations") or _quality_folder(loaded).exists():
        return True
    log.info("no Data Docs and no expectations of your own: pip install 'cdc-views[quality]' brings them")
    return False


def _quality_folder(loaded: Project) -> Place:
    return (loaded.root if loaded.is_remote else loaded.warehouse) / "quality"


def _published(reports: Sequence[tuple[Table, Report]], loaded: Project, **options: Any) -> list[Report]:
    """Run Great Expectations; its Data Docs are in a local warehouse, otherwise beside the project file."""
    place = _quality_folder(loaded)
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # Great Expectations reads it when it is imported
    with quietly(), on_this_machine(place) as folder:
        from cdc_views.quality.checkpoint import publish

        page, judged, moved = publish(reports, folder, **options)
        index = place / page.relative_to(folder.resolve() if page.is_relative_to(folder.resolve()) else folder).as_posix()
    for name, count in moved.items():
        if not count:
            continue
        what = f"{count} expectations that you added to the suite {name}, which validate writes anew, are now in {name}.custom"
        log.warning(f"{what}, which is yours", table=name)
    log.info(f"Data Docs: {index}")
    return judged


def _write(reports: Sequence[Report], *, junit: Path | None, json_file: Path | None) -> None:
    from cdc_views.quality.checks import junit_xml, records

    if junit is not None:
        junit.write_text(junit_xml(reports), encoding="utf-8")
    if json_file is not None:
        json_file.write_text(json.dumps(records(reports), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@shared("project", "select", "format")
def report(
    asked: Request,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write index.html and the pages of each table.")],
    engine: EngineOption = None,
    as_of: AsOfOption = None,
    dialect: Annotated[
        list[str] | None, typer.Option(metavar="DIALECT", help="SQL to show, repeatable; default: the engine's.")
    ] = None,
    recent: Annotated[int, typer.Option(min=0, metavar="N", help="Explain the N rows written last, per table.")] = 5,
    with_values: Annotated[bool, typer.Option("--with-values", help="Include keys and values of rows.")] = False,
    results: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Use results of `validate --json`; default: run the tests.")
    ] = None,
) -> None:
    """Write the pages of `cdc-views ui` as files.

    Landings, tests, fidelity, bytes, SQL, lineage, and the rows written last.
    """
    from cdc_views.pages.report import report_of, write_site
    from cdc_views.pages.wording import counted

    tables = asked.tables
    if out.is_file():
        raise UsageError(f"--out {out}: is a file; name a folder")
    clock = RunClock("report")
    report_with = partial(report_of, asked.project, tables=tables, as_of=as_of, engine=engine, dialects=dialect or ())
    found = report_with(recent=recent, with_values=with_values, results=results)
    _check_something_landed(tables)
    index = write_site(found, out)
    records = [{"table": table.name, "page": table.page, **asdict(table.results)} for table in found.tables]
    clock.keep(asked.project, {table.name: asdict(table.results) for table in found.tables})
    asked.print(_REPORT_COLUMNS, records)
    failed = found.failed()
    if failed:
        (table, check), tests = failed[0], counted(len(failed), "test")
        log.warning(f"{tests} did not hold, the first: {table.name}: {check.name}; the report lists them")
    log.info(f"wrote {index}")


def _check_something_landed(tables: Sequence[Table]) -> None:
    """Refuse a report if no table has landed events, like `validate`."""
    from cdc_views.operations.ingest import check_landed

    missing = []
    for table in tables:
        if table.project.is_remote:
            return
        try:
            check_landed(table)
            return
        except UsageError as error:
            missing.append(error)
    if missing:
        raise missing[0]
