"""`contract`, `dbt` and `sqlmesh`: exports of the tables as a data contract (ODCS), to a dbt or a SQLMesh project."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.groups import CommandGroups, helped
from cdc_views.cli.log import log
from cdc_views.cli.shared import Request, shared
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.export.exporting import Exported

_SETTINGS: Any = {"cls": CommandGroups, "no_args_is_help": True, "rich_markup_mode": None}
contract = typer.Typer(help="Write, compare and check data contracts (ODCS).", **_SETTINGS)
dbt = typer.Typer(help="Write models, tests and docs for a dbt project.", **_SETTINGS)
sqlmesh = typer.Typer(help="Write models for a SQLMesh project.", **_SETTINGS)
for group in (dbt, sqlmesh):
    group.callback()(lambda: None)  # makes it a group although it has one command

_COLUMNS = ("table", "element", "difference", "contract", "found", "verdict", "where")
_FILES = ("file", "state")
ContractArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A data contract: ODCS 3, YAML or JSON.")]


@helped(contract, "contract export")
@shared("project", "select")
def export(
    asked: Request,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE|DIR", help="One contract; in a folder, one per table; default: standard output.")
    ] = None,
    version: Annotated[str, typer.Option("--contract-version", metavar="V", help="The contract's own version.")] = "1.0.0",
) -> None:
    """Write a contract of the project's tables.

    Columns, types, keys, rules and service levels.
    """
    from cdc_views.export.contracts import contract_of, contract_yaml
    from cdc_views.export.contracts.writing import COMMAND
    from cdc_views.export.exporting import write_files

    if not version.strip():
        raise UsageError("--contract-version is empty; a version was expected, as 1.0.0")
    tables = asked.tables
    if out is None:
        sys.stdout.write(contract_yaml(contract_of(tables, version=version)))
        return
    if out.suffix in (".yml", ".yaml") and not out.is_dir():
        texts, folder = {out.name: contract_yaml(contract_of(tables, version=version))}, out.parent
    else:
        each = {table.config.slug: contract_of([table], version=version, name=table.name) for table in tables}
        texts, folder = {f"{slug}.odcs.yaml": contract_yaml(document) for slug, document in each.items()}, out
    for path in write_files(folder, texts, command=COMMAND).written:
        log.info(f"written: {path}")


@helped(contract, "contract check")
@shared("project", "select", "format")
def check(asked: Request, *, file: ContractArgument) -> None:
    """Compare a contract with the tables.

    Columns, types, keys, and rules without a test. Exit code 1 on a difference.
    """
    from cdc_views.export.contracts import compare, read_contract
    from cdc_views.export.contracts.comparing import ContractVerdict

    tables = asked.tables
    found = compare(read_contract(file), tables, is_selection=bool(asked.select))
    asked.print(_COLUMNS, ({**asdict(one), "difference": one.what} for one in found))
    if any(difference.verdict is ContractVerdict.DIFFERS for difference in found):
        raise typer.Exit(1)


@helped(contract, "contract import")
@shared("project", "select")
def import_rules(asked: Request, *, file: ContractArgument) -> None:
    """Print a contract's rules and service levels as `tests:` of the project file.

    Warns of rules without a data test.
    """
    from cdc_views.export.contracts import read_contract, rules_for
    from cdc_views.export.contracts.rules import tests_yaml

    read, tables = read_contract(file), asked.tables
    found = [(table.name, rules_for(read, table)) for table in tables if read.object_of(table) is not None]
    if not found:
        named = ", ".join(repr(part.name) for part in read.objects) or "nothing"
        raise UsageError(f"{file}: describes {named}, none of the tables {', '.join(table.name for table in tables)}")
    for _, rules in found:
        for rule in rules.unexpressed:
            log.warning(str(rule))
    sys.stdout.write(tests_yaml(found))


@helped(dbt, "dbt export")
@shared("project", "select", "format")
def export_dbt(
    asked: Request, *, out: Annotated[Path, typer.Option(metavar="DIR", help="The dbt project to write into.")] = Path(".")
) -> None:
    """Write sources, models, tests, docs and exposures, and the macros they need, into a dbt project."""
    from cdc_views.export.dbt import export as export_tables

    _print_exported(asked, export_tables(asked.project.config.name, asked.tables, out))
    if not (out / "dbt_project.yml").is_file():
        log.warning(f"{out} has no dbt_project.yml yet; docs/how-to/tools/dbt.md shows one, packages.yml and profiles.yml")


@helped(sqlmesh, "sqlmesh export")
@shared("project", "select", "format")
def export_sqlmesh(
    asked: Request, *, out: Annotated[Path, typer.Option(metavar="DIR", help="The SQLMesh project to write into.")] = Path(".")
) -> None:
    """Write a model per table, and a missing config.yaml, into a SQLMesh project on DuckDB."""
    from cdc_views.export.sqlmesh import export as export_tables

    _print_exported(asked, export_tables(asked.tables, out))


def _print_exported(asked: Request, done: Exported) -> None:
    files = [(path, "written") for path in done.written] + [(path, "removed") for path in done.removed]
    asked.print(_FILES, (dict(zip(_FILES, file, strict=True)) for file in files))
