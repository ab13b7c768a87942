"""`forget`: removes a key from everything kept of a table, and proves it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import EngineOption, TableArgument
from cdc_views.cli.shared import Request, shared
from cdc_views.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from cdc_views.operations.erasing.forgetting import Erasure

_COLUMNS = ("what", "location", "rows")


@shared("project", "format")
def forget(
    asked: Request,
    *,
    table: TableArgument,
    key: Annotated[
        str, typer.Option("--key", metavar="JSON", help="The row's key; the partition key alone for a whole partition.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would remove; change nothing.")] = False,
    undecodable: Annotated[
        str, typer.Option("--undecodable", metavar="fail|keep|drop", help="What to do with quarantined events of unknown key.")
    ] = "fail",
    lift: Annotated[
        bool, typer.Option("--lift", help="Let later events of a forgotten key land from a source without dates.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for another run of the table.")
    ] = 0,
    engine: EngineOption = None,
) -> None:
    """Remove a key from raw, quarantine and state, keep it from landing again, and prove that nothing is left.

    Exit code 1 if something is left, or if quarantine has events of unknown key.
    """
    from cdc_views.operations.erasing import forgetting

    known = [member.value for member in forgetting.Undecodable]
    if undecodable not in known:
        raise UsageError(f"--undecodable is {undecodable!r}{did_you_mean(undecodable, known)}")
    target = asked.table(table)
    if lift and dry_run:
        raise UsageError("--lift and --dry-run do not go together; --lift removes nothing")
    if lift:
        forgetting.lift(target, key)
        log.info(f"{table}: events of that key land again, but those that were removed")
        return
    done = target.forget(key, dry_run=dry_run, undecodable=forgetting.Undecodable(undecodable), engine=engine, wait=wait)
    asked.print(_COLUMNS, map(asdict, done.removed))
    _report(table, done)
    if done.proof is not None and not done.is_done:
        raise typer.Exit(1)


def _report(table: str, done: Erasure) -> None:
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
