"""Where a table's raw events are: landed by us, or found and then derived from what somebody else landed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cdc_views.errors import ConfigError, UnsupportedError, UsageError
from cdc_views.generations import Generations
from cdc_views.project.paths import default_raw_table, is_url, unfit_letter
from cdc_views.relation import LAYOUT_VERSION, RawTable

if TYPE_CHECKING:
    from cdc_views.erasing.forgotten import Forgotten
    from cdc_views.found import Adaptation
    from cdc_views.landing import LandingReport, Progress, ReplayReport, StreamLander
    from cdc_views.table import Table

NOTHING_LANDED = "nothing has landed for {name} yet; land events with `cdc-views land FORMAT FILE… --table {name}`"
_DERIVED, _STATE, _SERVING, _FORGOTTEN = "derived", "state", "serving", "forgotten"


def location_of(table: Table) -> str:
    """Return the path or URI of the raw table that the project file names."""
    if table.project.is_remote:
        return _remote(table, table.config.raw_table)
    path = table.config.raw_table
    return path if is_url(path) else _local(table, str(table.project.root / path))


def raw_of(table: Table) -> RawTable:
    """Return the raw table in the canonical layout; of a found table the derived one, in a place of its own."""
    if not table.is_found:
        return RawTable(location_of(table), table.relation)
    name = default_raw_table(table.name).removeprefix("raw/")
    if table.project.is_remote:
        if (derived := _remote(table, name)) == location_of(table):
            raise ConfigError(
                f"{table.project.file}: {table.name}: `raw.table` names {derived.partition('://')[2]}, where cdc-views keeps "
                "what it derives; name the table that events land in, or another `bigquery.raw_dataset`"
            )
        return RawTable(derived, table.relation)
    return RawTable(_local(table, str(table.project.warehouse / _DERIVED / name / name)), table.relation)


def _remote(table: Table, name: str) -> str:
    """Where BigQuery has the raw table of that name."""
    from cdc_views.engines.warehouses import SCHEME
    from cdc_views.project.bigquery import place_of

    config = table.project.config
    return SCHEME + place_of(config.warehouse, config.bigquery).raw_table(name)


def generations_of(table: Table) -> Generations:
    """Return the generations of the table's state."""
    name = default_raw_table(table.name).removeprefix("raw/")
    return Generations(Path(_local(table, str(table.project.warehouse / _STATE / name))))


def state_location(table: Table) -> str:
    """Return where the state that is read is, or will be."""
    generations = generations_of(table)
    return generations.location(generations.current)


def serving_location(table: Table) -> str | None:
    """Return where the serving table is, or is to be; None where the project file asks for none."""
    name = table.config.serving_name
    return None if name is None else _local(table, str(table.project.warehouse / _SERVING / name), what="serving table")


def _local(table: Table, path: str, *, what: str = "raw table") -> str:
    if letter := unfit_letter(path):
        raise ConfigError(f"{path!r}: Delta cannot keep a table under a path that holds {letter!r}; choose another path")
    if Path(path).is_file():
        raise ConfigError(f"{table.project.file}: the {what} of {table.name}, {path}, is a file; name a folder")
    return path


def adapted(table: Table) -> Adaptation | None:
    """Bring the derived raw table of a found one up to date; None for a table that we land. Every read begins here.

    Raises `RawMismatchError` where the raw table is gone, or is not the one that was seen last.
    """
    from cdc_views.known_raw import check_known

    check_known(table)
    return adapted_as_it_is(table)


def adapted_as_it_is(table: Table) -> Adaptation | None:
    """As `adapted`, whichever raw table is there."""
    from cdc_views.found import adapt

    if not table.is_found:
        return None
    if table.project.is_remote:
        return _adapted_remotely(table)
    return adapt(location_of(table), table.raw, table.format, setting=_setting(table), forgotten=forgotten_of(table))


def _adapted_remotely(table: Table) -> Adaptation:
    from cdc_views.found.sinks import SinkColumns

    raw = table.config.raw
    names = SinkColumns(raw.kafka_key, raw.kafka_data, frozenset(raw.options.scales))
    with table.project.remote() as warehouse:
        return warehouse.adapt(
            location_of(table), table.raw, table.format, setting=_setting(table), names=names, now=datetime.now(timezone.utc)
        )


def forgotten_of(table: Table) -> Forgotten:
    """Return the table's forgotten keys, whose older events do not land; none where the warehouse has none."""
    from cdc_views.erasing.forgotten import Forgotten

    return Forgotten.read(forgotten_file(table))


def forgotten_file(table: Table) -> Path:
    """Return the file of the table's forgotten keys."""
    name = default_raw_table(table.name).removeprefix("raw/")
    return table.project.warehouse / _FORGOTTEN / f"{name}.jsonl"


def check_landed(table: Table) -> None:
    """Take in what somebody else has landed since; raise `UsageError` where nothing has landed at all.

    Raises `RawMismatchError` where something has, and is not there any more.
    """
    from cdc_views.landing import exists

    table.project.check_raw_tables_are_local()
    adapted(table)
    if not exists(table.raw):
        raise UsageError(NOTHING_LANDED.format(name=table.name))


def _setting(table: Table) -> str:
    """Whatever decides how an event of the table reads."""
    raw = table.config.raw
    configured = raw.model_dump_json(exclude={"table", "topics"})
    return "\n".join([version("cdc-views"), str(LAYOUT_VERSION), configured, repr(table.schema)])


def quarantine_note(table: Table) -> str:
    """Return what to say of rows of a found table that are no events; empty where there are none."""
    from cdc_views.landing import quarantine_location
    from cdc_views.landing.discretion import without_values
    from cdc_views.landing.quarantine import waiting

    if not table.is_found:
        return ""
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            count, first = warehouse.waiting(table.raw)
    else:
        count, first = waiting(table.raw)
    if not count:
        return ""
    place, _, reason = first.partition(": ")
    told = f"{place}: {without_values(reason, table.schema)}"
    return f"{count:,} rows in quarantine ({quarantine_location(table.raw)}) are not shown; the first is {told}"


def land_files(
    table: Table, files: Sequence[str | Path], *, now: datetime, progress: Progress | None, refuses_wrong_files: bool = False
) -> LandingReport:
    """Append event files to the raw table, on this machine or in the warehouse; see `cdc_views.landing.land`."""
    from cdc_views.known_raw import check_known, remember
    from cdc_views.landing import land

    _check_ours(table)
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            return warehouse.landing(table.raw, table.format, now=now).land(files, progress=progress)
    check_known(table)
    known = forgotten_of(table)
    refuses = refuses_wrong_files
    done = land(table.raw, table.format, files, now=now, progress=progress, forgotten=known, refuses_wrong_files=refuses)
    remember(table)
    return done


def replay_waiting(table: Table, *, now: datetime) -> ReplayReport:
    """Land again what waits in quarantine, as `land_files` does; see `cdc_views.landing.replay`."""
    from cdc_views.known_raw import check_known, remember
    from cdc_views.landing import replay

    _check_ours(table)
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            return warehouse.landing(table.raw, table.format, now=now).replay()
    check_known(table)
    done = replay(table.raw, table.format, now=now, forgotten=forgotten_of(table))
    remember(table)
    return done


def stream_into(table: Table, name: str, *, shown: int | None) -> StreamLander:
    """Return what lands the stream `name` into the raw table; see `Table.stream`."""
    from cdc_views.known_raw import check_known, remember
    from cdc_views.landing import StreamLander

    check_lands(table)
    check_known(table)
    lander = StreamLander(table.raw, table.format, name, forgotten_of(table), shown=shown)
    remember(table)
    return lander


def check_lands(table: Table) -> None:
    """Raise `UnsupportedError` where events cannot be landed on this machine: into somebody else's table, or BigQuery's."""
    table.project.check_raw_tables_are_local()
    _check_ours(table)


def _check_ours(table: Table) -> None:
    if table.is_found:
        raise UnsupportedError(
            f"{table.project.file}: {table.name} has `layout: as-found`: somebody else lands its events, and cdc-views only "
            "reads them, anew once the schema file or `raw` changed",
            remedy="query it as it is, or leave `layout` out and name a raw table of its own",
        )


@contextmanager
def readable(table: Table) -> Iterator[tuple[RawTable, str]]:
    """The raw table, or an empty stand-in where nothing has landed: reading lands nothing. And what to say of it.

    Raises `RawMismatchError` where the raw table is gone, or is not the one that was seen last.
    """
    from cdc_views.landing import create_raw, exists, open_raw

    adapted(table)
    if table.project.is_remote:
        yield table.raw, quarantine_note(table)
        return
    if exists(table.raw):
        open_raw(table.raw, format_name=table.format.name)
        yield table.raw, quarantine_note(table)
        return
    with TemporaryDirectory(prefix="cdc-views-") as folder:
        empty = RawTable(str(Path(folder) / "raw"), table.relation)
        create_raw(empty, format_name=table.format.name)
        yield empty, NOTHING_LANDED.format(name=table.name)
