"""`rebuild` and `maintain`: build a new state beside the old one; keep files few and small."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import EngineOption, TableArgument
from cdc_views.cli.quarantined import warn_of_late
from cdc_views.cli.shared import Request, shared
from cdc_views.errors import UsageError

_DIFFERENCES = ("key", "column", "before", "after")
_UPKEEP = ("table", "what", "location", "merged", "removed", "bytes", "log_entries")


@shared("project", "format")
def rebuild(
    asked: Request,
    *,
    table: TableArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare only; do not switch.")] = False,
    accept: Annotated[bool, typer.Option("--accept", help="Switch even if rows differ or the raw table is another one.")] = False,
    with_late: Annotated[bool, typer.Option("--with-late", help="Include facts that landed after the lateness horizon.")] = False,
    with_state: Annotated[bool, typer.Option("--with-state", help="Include facts that only the state has, not raw.")] = False,
    back: Annotated[bool, typer.Option("--back", help="Switch back to the state before the last switch.")] = False,
    engine: EngineOption = None,
) -> None:
    """Build a new state beside the old one, compare all cells, print differences, and switch if there are none.

    Exit code 1 if rows differ and `--accept` is missing; the old state stays.
    """
    target = asked.table(table)
    if back:
        if dry_run or accept or with_late or with_state:
            raise UsageError("--back goes with no other option: it switches to a state that is there already")
        log.info(f"{table}: generation {target.switch_back()} of the state is read again")
        return
    done = target.rebuild(engine=engine, accept=accept, dry_run=dry_run, with_late=with_late, with_state=with_state)
    found = done.comparison
    warn_of_late(table, done.late)
    asked.print(_DIFFERENCES, ({**asdict(d), "key": _key(d.key)} for d in found.differences))
    log.info(f"{table}: {found.equal:,} rows equal, {found.changed:,} changed, {found.gone:,} gone, {found.new:,} new")
    if done.is_switched:
        log.info(f"{table}: generation {done.generation} of the state is read now; `rebuild {table} --back` undoes it")
    elif not found.is_equal:
        given = f"{' --with-late' if with_late else ''}{' --with-state' if with_state else ''}"
        again = f"rebuild {table}{given} --accept"
        log.warning(f"{table}: the state stays generation {done.before}; `{again}` switches all the same")
    if not (found.is_equal or done.is_switched):
        raise typer.Exit(1)


def _key(key: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {text}' for name, text in key.items()) + "}"


@shared("project", "select", "format")
def maintain(
    asked: Request,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would remove; change nothing.")] = False,
    retention_hours: Annotated[
        int, typer.Option("--retention-hours", metavar="HOURS", help="Keep replaced files so long, for readers; default: 168.")
    ] = 168,
    drop_raw_older_than: Annotated[
        str | None, typer.Option("--drop-raw-older-than", metavar="SPAN", help="Drop raw facts landed longer ago (30d).")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", metavar="DIR", help="Keep the dropped facts there, as Parquet files.")
    ] = None,
    restore_raw: Annotated[
        Path | None, typer.Option("--restore-raw", metavar="DIR", help="Put dropped facts back from their archive.")
    ] = None,
    engine: EngineOption = None,
) -> None:
    """Merge small files and remove files that nothing reads; keeps every event unless you drop raw facts.

    `--drop-raw-older-than` drops raw facts that the state provably covers; otherwise exit code 1, and it drops nothing.
    Commands that need all events refuse from then on.
    """
    if restore_raw is not None and (dry_run or drop_raw_older_than is not None):
        raise UsageError("--restore-raw goes neither with --dry-run nor with --drop-raw-older-than")
    if archive is not None and drop_raw_older_than is None:
        raise UsageError("--archive keeps what --drop-raw-older-than drops; give that too")
    tables = asked.tables
    for table in tables:
        if restore_raw is not None:
            log.info(f"{table.name}: {table.restore_raw(restore_raw):,} facts are back; raw is whole")
        if drop_raw_older_than is not None:
            done = table.drop_raw(older_than=drop_raw_older_than, archive=archive, dry_run=dry_run, engine=engine)
            log.info(f"{table.name}: {'would drop' if dry_run else 'dropped'} {done.line()}")
    upkeep = ((table, table.maintain(retention_hours=retention_hours, dry_run=dry_run)) for table in tables)
    asked.print(_UPKEEP, [{"table": table.name, **asdict(one)} for table, found in upkeep for one in found])
