"""`contract`: data contracts in the Open Data Contract Standard, written, compared and read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption
from cdc_views.cli.printing import as_json_rows, check_format, print_rows
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.table import Table

contract = typer.Typer(help="Data contracts (ODCS).", no_args_is_help=True, rich_markup_mode=None)

_COLUMNS = ("table", "element", "difference", "contract", "found", "verdict", "where")
ContractArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A data contract: ODCS 3, YAML or JSON.")]


@contract.command("export")
def export(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE|DIR", help="One contract, or in a folder one a table; default: standard output."),
    ] = None,
    version: Annotated[str, typer.Option("--contract-version", metavar="V", help="The contract's own version.")] = "1.0.0",
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Write a contract of the project's tables: columns, types, keys, rules and service levels."""
    from cdc_views.api import Project
    from cdc_views.export.contracts import contract_of, contract_yaml
    from cdc_views.export.contracts.writing import COMMAND
    from cdc_views.export.exporting import write_files

    tables = Project.load(project).select(select or ())
    if out is None:
        sys.stdout.write(contract_yaml(contract_of(tables, version=version)))
        return
    if out.suffix in (".yml", ".yaml") and not out.is_dir():
        texts, folder = {out.name: contract_yaml(contract_of(tables, version=version))}, out.parent
    else:
        texts, folder = _texts(tables, version), out
    for path in write_files(folder, texts, command=COMMAND).written:
        log.info(f"written: {path}")


def _texts(tables: tuple[Table, ...], version: str) -> dict[str, str]:
    """A contract a table, by file name."""
    from cdc_views.export.contracts import contract_of, contract_yaml

    names = {table.name: table.config.slug for table in tables}
    return {
        f"{names[table.name]}.odcs.yaml": contract_yaml(contract_of([table], version=version, name=table.name))
        for table in tables
    }


@contract.command("check")
def check(
    file: ContractArgument,
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Compare a contract with the tables: columns, types, keys, and rules without a test. Exit code 1 on a difference."""
    from cdc_views.api import Project
    from cdc_views.export.contracts import compare, read_contract
    from cdc_views.export.contracts.comparing import Verdict

    check_format(format)
    tables = Project.load(project).select(select or ())
    found = compare(read_contract(file), tables, is_selection=bool(select))
    rows = [(d.table, d.element, d.what, d.contract, d.found, d.verdict.value, d.where) for d in found]
    print_rows(_COLUMNS, as_json_rows([dict(zip(_COLUMNS, row, strict=True)) for row in rows]), format=format)
    if any(difference.verdict is Verdict.DIFFERS for difference in found):
        raise typer.Exit(1)


@contract.command("import")
def import_rules(
    file: ContractArgument,
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Print a contract's rules and service levels as `tests:` of the project file; what is no data test is warned of."""
    from cdc_views.api import Project
    from cdc_views.export.contracts import read_contract, rules_for
    from cdc_views.export.contracts.rules import tests_yaml

    read, tables = read_contract(file), Project.load(project).select(select or ())
    found = [(table.name, rules_for(read, table)) for table in tables if read.object_of(table) is not None]
    if not found:
        named = ", ".join(repr(part.name) for part in read.objects) or "nothing"
        raise UsageError(f"{file}: describes {named}, none of the tables {', '.join(table.name for table in tables)}")
    for _, rules in found:
        for rule in rules.unexpressed:
            log.warning(str(rule))
    sys.stdout.write(tests_yaml(found))
