"""`rebuild`, `maintain` and `forget`: build a new state, keep few files, and remove a key from everywhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log, warn_of_late
from cdc_views.cli.printing import fields_of
from cdc_views.cli.run_history import RunClock
from cdc_views.cli.shared import EngineOption, Request, TableArgument, shared
from cdc_views.errors import UsageError, choose_one

if TYPE_CHECKING:
    from cdc_views.operations.erasing.forgetting import Erasure
    from cdc_views.operations.rebuilding import Rebuilt

_DIFFERENCES = ("key", "column", "before", "after")
_REMOVED = ("what", "location", "rows")
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
    """Build a new state beside the old one, compare, and switch.

    Compares all cells, prints differences, and switches if there are none. Exit code 1 if rows differ and `--accept` is missing;
    the old state stays.
    """
    if dry_run and accept:
        raise UsageError("--dry-run never switches, --accept always does; give one of them")
    if back and (dry_run or accept or with_late or with_state):
        raise UsageError("--back goes with no other option: it switches to a state that is there already")
    target = asked.table(table)
    table = target.name
    if back:
        log.info(f"{table}: generation {target.switch_back()} of the state is read again")
        return
    clock = RunClock("rebuild")
    done = target.rebuild(engine=engine, accept=accept, dry_run=dry_run, with_late=with_late, with_state=with_state)
    found = done.comparison
    warn_of_late(table, done.late)
    clock.keep(asked.project, {table: fields_of(found, ("equal", "changed", "gone", "new", "uncompared"))})
    asked.print(_DIFFERENCES, ({**asdict(d), "key": _key(d.key)} for d in found.differences))
    log.info(f"{table}: {found.equal:,} rows equal, {found.changed:,} changed, {found.gone:,} gone, {found.new:,} new")
    if found.uncompared:
        log.warning(f"{table}: too many differ; {found.uncompared:,} rows more are near others that differ and were not compared")
    _tell_of_switch(table, done, given=f"{' --with-late' if with_late else ''}{' --with-state' if with_state else ''}")
    if not (found.is_equal or done.is_switched):
        raise typer.Exit(1)


def _tell_of_switch(table: str, done: Rebuilt, *, given: str) -> None:
    if done.is_switched:
        log.info(f"{table}: generation {done.generation} of the state is read now; `rebuild {table} --back` undoes it")
    elif not done.comparison.is_equal:
        again = f"rebuild {table}{given} --accept"
        log.warning(f"{table}: the state stays generation {done.before}; `{again}` switches all the same")


def _key(key: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {text}' for name, text in key.items()) + "}"


@shared("project", "select", "format")
def maintain(
    asked: Request,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would remove; change nothing.")] = False,
    retention_hours: Annotated[int, typer.Option(metavar="HOURS", help="Keep replaced files this long, for readers.")] = 168,
    drop_raw_older_than: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Drop raw facts that landed longer ago than this, as 30d.")
    ] = None,
    archive: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the dropped facts there, as Parquet files.")] = None,
    restore_raw: Annotated[Path | None, typer.Option(metavar="DIR", help="Put dropped facts back from their archive.")] = None,
    engine: EngineOption = None,
) -> None:
    """Merge small files and remove files that nothing reads.

    Every event is kept, unless you drop raw facts.

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


@shared("project", "format")
def forget(
    asked: Request,
    *,
    table: TableArgument,
    key: Annotated[str, typer.Option(metavar="JSON", help="The row's key; the partition key alone for a whole partition.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would remove; change nothing.")] = False,
    undecodable: Annotated[
        str, typer.Option(metavar="fail|keep|drop", help="What to do with quarantined events of unknown key.")
    ] = "fail",
    lift: Annotated[
        bool, typer.Option("--lift", help="Let events of a forgotten key land again; for sources without dates.")
    ] = False,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for another run of the table.")] = 0,
    engine: EngineOption = None,
) -> None:
    """Erase a key everywhere, and prove it.

    Removes it from raw, quarantine, state and serving table, keeps it from landing again, and proves that nothing is left.

    Exit code 1 if something is left, or if quarantine has events of unknown key.
    """
    from cdc_views.operations.erasing import forgetting

    known = [member.value for member in forgetting.Undecodable]
    if undecodable not in known:
        raise UsageError(f"--undecodable is {undecodable!r}; {choose_one(undecodable, known)}")
    target = asked.table(table)
    table = target.name
    if lift and dry_run:
        raise UsageError("--lift and --dry-run do not go together; --lift removes nothing")
    if lift:
        forgetting.lift(target, key)
        log.info(f"{table}: events of that key land again, but those that were removed")
        return
    done = target.forget(key, dry_run=dry_run, undecodable=forgetting.Undecodable(undecodable), engine=engine, wait=wait)
    asked.print(_REMOVED, map(asdict, done.removed))
    _report_erasure(table, done)
    if done.proof is not None and not done.is_done:
        raise typer.Exit(1)


def _report_erasure(table: str, done: Erasure) -> None:
    for note in done.notes:
        log.warning(f"{table}: {note}")
    if done.undecodable and not done.is_accepted:
        mentioning = f" ({done.mentioning:,} hold a text that was removed)" if done.mentioning else ""
        log.warning(
            f"{table}: {done.undecodable:,} events in quarantine cannot be decoded, so nobody knows whose they are{mentioning}; "
            "mend and `replay` them, or pass --undecodable drop, or keep"
        )
    if done.proof is None:
        return
    for leftover in done.proof.leftovers:
        advice = "run the command again once nothing writes there, and a file that no commit names is an hour old"
        log.error(f"{table}: {leftover.what}: {leftover.file}: {leftover.found} left; {advice}")
    if done.proof.is_clean:
        proof = done.proof
        log.info(f"{table}: nothing of the key is left in {proof.files:,} files ({proof.rows:,} rows, {proof.bytes:,} bytes)")
