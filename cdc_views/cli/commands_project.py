"""`demo`, `init`, `generate`, `plan` and `apply`: the project file and the views it makes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.completion import one_of
from cdc_views.cli.log import log, warn_of_quarantine
from cdc_views.cli.printing import fields_of
from cdc_views.cli.shared import EngineOption, Request, StrategyOption, shared
from cdc_views.errors import UsageError
from cdc_views.operations.examples import EXAMPLES

if TYPE_CHECKING:
    from cdc_views.operations.applying import TablePlan
    from cdc_views.operations.starting import StartedProject

_COLUMNS = ("table", "view", "change", "raw_version", "raw_rows", "raw_bytes")
_PRICE = ("read_bytes", "money", "currency", "most_bytes")
_PRICED = ("table", "view", "change", "raw_rows", "raw_bytes", *_PRICE)
_DIALECTS = "duckdb, spark, databricks, bigquery, postgres, clickhouse or trino; default: the engine's."
_APPLY_COLUMNS = ("table", "view", "engine", "state")


def _print_plans(asked: Request, plans: Sequence[TablePlan]) -> None:
    is_priced = any(planned.is_remote for planned in plans)
    columns = _PRICED if is_priced else _COLUMNS
    if not asked.is_for_people:
        asked.print((*columns, "schema", "diff") if is_priced else (*columns, "diff"), map(_record, plans))
        return
    asked.print(columns, map(_record, plans))
    for planned in plans:
        for line in planned.schema:
            print(line)
        print(planned.diff, end="\n\n" if planned.diff else "")


def _record(planned: TablePlan) -> dict[str, Any]:
    one, known = planned.estimate, fields_of(planned, (*_COLUMNS, "schema", "diff"))
    price = (None,) * 4 if one is None else (one.reads, round(one.money, 6), one.currency, one.limit)
    return {**known, **dict(zip(_PRICE, price, strict=True))}


@shared("select", "format")
def init(
    asked: Request,
    *,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SCHEMA", help="A CQL or SQL file, .avsc, YAML schema, or source: postgresql://HOST/DB …"),
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write cdc_views.yml.")] = Path("."),
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The project's name; default: the folder's.")] = None,
    raw_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="The events' raw format; default: by the schema.")
    ] = None,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the project file's JSON Schema, for editors.")
    ] = False,
    project: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write; default: in --dir.")] = None,
) -> None:
    """Write a project file for the tables of a schema.

    Every table of the schema file or the running source, on engine duckdb. A source's schema is saved beside it.
    """
    from cdc_views.operations.starting import start_project

    if json_schema:
        from cdc_views.project import project_json_schema

        print(json.dumps(project_json_schema(), indent=2))
        return
    if source is None:
        raise UsageError("init needs --from SCHEMA: a CQL or SQL file, an .avsc, a YAML schema, or a running source's address")
    started = start_project(source, project or folder / "cdc_views.yml", name=name, raw_format=raw_format, only=asked.select)
    records = [{"project": str(started.file), "table": table} for table in started.tables]
    asked.print(("project", "table"), records)
    _tell_of(started)


def _tell_of(started: StartedProject) -> None:
    for why in started.left_out:
        log.warning(f"{why}; this table is left out")
    for note in started.notes:
        log.warning(note)
    if started.schema_file is not None:
        log.info(f"wrote {started.schema_file}; it stays as it is when the source changes")
    log.info(f"wrote {started.file}; next: cdc-views {started.following}")


@shared("format")
def demo(
    asked: Request,
    *,
    example: Annotated[
        str, typer.Argument(metavar="|".join(EXAMPLES), help="Which events.", autocompletion=one_of(lambda: EXAMPLES))
    ] = "postgres",
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write the files.")] = Path("."),
) -> None:
    """Write an example's schema and events, to try the commands on.

    The events are real: captured from a PostgreSQL by Debezium, or from the commit logs of three Cassandra nodes.
    """
    from cdc_views.operations.examples import write_example

    found = write_example(example, folder)
    asked.print(("file", "bytes", "lines"), (fields_of(one, ("file", "bytes", "lines")) for one in found))
    schema = next(one.file for one in found if one.file.stem == "schema").as_posix()
    log.info(f"{EXAMPLES[example]}; next: cdc-views init --from {schema} --name shop")


@shared("project", "select", "format")
def generate(
    asked: Request,
    *,
    dialect: Annotated[str | None, typer.Option(metavar="DIALECT", help=_DIALECTS)] = None,
    strategy: StrategyOption = None,
    style: Annotated[
        str, typer.Option(metavar="STYLE", help="plain: one statement. macros: functions hold what repeats, and views call them.")
    ] = "plain",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write one file per view instead of printing.")] = None,
) -> None:
    """Print the SQL that creates the views."""
    from cdc_views.operations.generating import sql_folder
    from cdc_views.operations.reading import strategy_of, style_of

    # all texts before writing the first, so that a failing table leaves no files behind
    tables, written = asked.tables, style_of(style)
    if out is not None:
        chosen = None if strategy is None else strategy_of(tables[0], strategy)
        files = sql_folder(tables, dialect or tables[0].project.config.engine, strategy=chosen, style=written)
        for path, text in (files or {}).items():
            _write(out, path, text=text)
        if files is not None:
            return
    texts = [(table, table.sql(dialect, strategy=strategy, style=written)) for table in tables]
    warn_of_quarantine(*tables, views=dialect or tables[0].project.config.engine)
    if out is None:
        print("\n\n".join(text.rstrip("\n") for _, text in texts))
        return
    for table, text in texts:
        _write(out, f"{table.config.slug}.sql", text=text)


def _write(out: Path, name: str, *, text: str) -> None:
    file = out / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: {file.name} cannot be written there ({error.strerror}); name a folder") from error
    log.info(f"wrote {file}")


@shared("project", "select", "format")
def plan(asked: Request) -> None:
    """Show what `apply` would change.

    The views' SQL against what was applied last, and how much there is to read.
    """
    tables = asked.tables
    plans = [table.plan() for table in tables]
    warn_of_quarantine(*tables, views=asked.project.config.engine)
    _print_plans(asked, plans)


@shared("project", "select", "format")
def apply(
    asked: Request,
    *,
    engine: EngineOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what plan prints, and change nothing.")] = False,
) -> None:
    """Create or replace the views in the engine's catalog.

    With `spark: {catalog: …}`, it registers views, states and serving tables in that catalog.
    """
    from cdc_views.engines.plugin import engine_plugin
    from cdc_views.operations.applying import apply_view
    from cdc_views.operations.view_names import view_of

    loaded = asked.project
    if dry_run:
        _print_plans(asked, [table.plan() for table in asked.tables])
        return
    records = []
    for table in asked.tables:
        done = apply_view(table, engine=engine)
        state = "applied" if done.statement else "no view" if done.note else "waits for the first landing"
        chosen = engine or loaded.config.engine
        records.append({"table": table.name, "view": view_of(table, engine_plugin(chosen)), "engine": chosen, "state": state})
        if done.note:
            log.warning(f"{table.name}: {done.note}; the tables are registered, and `cdc-views query` reads the rows")
        for name in done.tables:
            log.info(f"{table.name}: {name} is registered")
        warn_of_quarantine(table, views=chosen)
    asked.print(_APPLY_COLUMNS, records)
