"""Gets events into a table's raw table: lands them, or derives them from an external table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.landing import StreamLander, create_raw, exists, land, quarantine_location, raw_log, replay
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.external import Adaptation, adapt
from cdc_views.landing.external.sinks import SinkColumns
from cdc_views.landing.quarantine import waiting
from cdc_views.landing.redaction import without_values
from cdc_views.landing.report import LandingReport, Progress, ReplayReport
from cdc_views.landing.spreading import HERE
from cdc_views.operations.catalogs import begun
from cdc_views.operations.context import TableContext
from cdc_views.operations.damage import naming_damage
from cdc_views.operations.known_raw import check_known, remember
from cdc_views.operations.lateness import state_of
from cdc_views.operations.spreading import spreading
from cdc_views.state.state_table import check_not_sole
from cdc_views.state.tail import check_whole
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable

NOTHING_LANDED = "nothing has landed for {name} yet; land events with `cdc-views land FORMAT FILE… --table {name}`"


def adapted(table: TableContext) -> Adaptation | None:
    """Bring the derived raw table of an external table up to date; None for a table that we land. Every read starts here. Raises
    `RawMismatchError` if the raw table is gone or is not the one seen last.
    """
    with naming_damage(table):
        check_known(table)
        return adapted_as_it_is(table)


def adapted_as_it_is(table: TableContext) -> Adaptation | None:
    """As `adapted`, without a check of the raw table."""
    if not table.is_external:
        return None
    raw, config, forgotten = table.raw, table.config.raw, forgotten_of(table)
    # everything that decides how events are decoded
    decisive = [
        version("cdc-views"),
        LAYOUT_VERSION,
        config.model_dump_json(exclude={"table", "topics"}),
        repr(table.source_schema),
    ]
    decisive += [table.config.policies.fingerprint] if table.config.policies else []
    setting = "\n".join(map(str, decisive))
    if not table.project.is_remote:
        with spreading(table.project) as tasks:
            return adapt(table.location, raw, table.format, setting=setting, forgotten=forgotten, spread=tasks.spread)
    names = SinkColumns(config.kafka_key, config.kafka_data, table.format.scaled)
    with table.project.remote() as warehouse:
        now = datetime.now(timezone.utc)
        return warehouse.adapt(table.location, raw, table.format, setting=setting, names=names, now=now, forgotten=forgotten)


def forgotten_of(table: TableContext) -> Denylist | None:
    """Return the table's forgotten keys; None in BigQuery, where `forget` refuses."""
    return None if table.project.is_remote else Denylist.read(table.forgotten_file)


def check_landed(table: TableContext) -> None:
    """Adapt an external table; raises `UsageError` if nothing has landed, `RawMismatchError` if landed events are gone."""
    table.project.check_raw_tables_are_local()
    adapted(table)
    if not exists(table.raw):
        raise UsageError(NOTHING_LANDED.format(name=table.name))


def landed(table: TableContext) -> None:
    """As `check_landed`, and the raw table must have the table's format."""
    table.project.check_raw_tables_are_local()
    adapted(table)
    if raw_log(table.raw, format_name=table.format.name) is None:
        raise UsageError(NOTHING_LANDED.format(name=table.name))


def quarantine_note(table: TableContext, *, is_in_place: Callable[[], bool] = lambda: False) -> str:
    """Return a note about quarantined rows of an external table; empty if there are none.

    `is_in_place`, asked if there are some: whether their reader reads the table itself, and cannot leave them out.
    """
    if not table.is_external:
        return ""
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            count, first = warehouse.waiting(table.raw)
    else:
        count, first = waiting(table.raw)
    if not count:
        return ""
    place, _, reason = first.partition(": ")
    told = f"{count:,} rows in quarantine ({quarantine_location(table.raw)})"
    shown = f"the first is {place}: {without_values(reason, table.schema)}"
    if not is_in_place():
        return f"{told} are not shown; {shown}"
    reads = "the view reads the table itself, and fails at a row that SQL cannot read"
    return f"{told}; {reads}; set `raw: {{reading: copy}}` for a view without them; {shown}"


def land_files(
    table: TableContext,
    files: Sequence[str | Path],
    *,
    now: datetime,
    progress: Progress | None,
    refuses_wrong_files: bool = False,
) -> LandingReport:
    """Append event files to the raw table, on this machine or in the warehouse; see `cdc_views.landing.land`."""
    _check_ours(table)
    known = forgotten_of(table)
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            return warehouse.landing(table.raw, table.format, now=now, forgotten=known).land(files, progress=progress)
    begun(table)
    check_known(table)
    how: Any = {"now": now, "progress": progress, "forgotten": known, "refuses_wrong_files": refuses_wrong_files}
    with spreading(table.project) as tasks:
        done = land(table.raw, table.format, files, **how, tasks=None if tasks is HERE else tasks)
    remember(table)
    return done


def replay_waiting(table: TableContext, *, now: datetime) -> ReplayReport:
    """Land the waiting events of quarantine again; see `cdc_views.landing.replay`."""
    _check_ours(table)
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            return warehouse.landing(table.raw, table.format, now=now, forgotten=forgotten_of(table)).replay()
    begun(table)
    check_known(table)
    done = replay(table.raw, table.format, now=now, forgotten=forgotten_of(table))
    remember(table)
    return done


def stream_into(table: TableContext, name: str, *, shown: int | None) -> StreamLander:
    """Return a lander of the stream `name`, which has its own position; creates a missing raw table. `shown` is how many
    quarantined events its reports name; None: a few.
    """
    check_lands(table)
    begun(table)
    check_known(table)
    lander = StreamLander(table.raw, table.format, name, forgotten_of(table), shown=shown)
    remember(table)
    return lander


def check_lands(table: TableContext) -> None:
    """Raise `UnsupportedError` if events cannot land here: for an external table, or one in BigQuery."""
    table.project.check_raw_tables_are_local()
    _check_ours(table)


def _check_ours(table: TableContext) -> None:
    if table.is_external:
        raise UnsupportedError(
            f"{table.project.file}: {table.name} has `layout: as-found`: somebody else lands its events, and cdc-views only "
            "reads them, anew once the schema file or `raw` changed",
            remedy="query it as it is, or leave `layout` out and name a raw table of its own",
        )


def check_raw_is_whole(table: TableContext, *, what: str) -> None:
    """Raise `UsageError` if `what` needs events that were dropped from raw."""
    if table.project.is_remote:
        return
    check_whole(table.raw.location, what=what)
    check_not_sole(state_of(table), what=what)


@contextmanager
def readable(table: TableContext) -> Iterator[tuple[RawTable, str]]:
    """Yield the raw table (a temporary empty one if nothing has landed), and a note for the reader; raises like `check_known`."""
    adapted(table)
    if table.project.is_remote or raw_log(table.raw, format_name=table.format.name) is not None:
        yield table.raw, quarantine_note(table)
        return
    with TemporaryDirectory(prefix="cdc-views-") as folder:
        empty = RawTable(str(Path(folder) / "raw"), table.relation)
        create_raw(empty, format_name=table.format.name)
        yield empty, NOTHING_LANDED.format(name=table.name)
