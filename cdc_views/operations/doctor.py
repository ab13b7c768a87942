"""`doctor`: what this installation has and lacks for a project, and whether its files and places can be read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib.metadata import requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cdc_views.engines.plugin import EnginePlugin
from cdc_views.errors import CdcViewsError, DamagedFileError
from cdc_views.model.extras import EXTRA_OF, needs
from cdc_views.operations.context import ProjectContext, TableContext
from cdc_views.operations.damage import missing_of
from cdc_views.operations.earlier_values import earlier, earlier_events
from cdc_views.operations.generating import definition_of
from cdc_views.operations.policies import REMEDY
from cdc_views.operations.status import status_of
from cdc_views.project.paths import is_live_source
from cdc_views.schemas import read_catalog
from cdc_views.storage.places import Place
from cdc_views.storage.stores import is_url

if TYPE_CHECKING:
    from cdc_views.engines.warehouses import WarehouseEngine

_PROJECT = "cdc-views"


class Health(str, Enum):
    """How a finding matters: `ABSENT` is not there, and nothing of the project needs it; `BROKEN` needs a remedy."""

    OK = "ok"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was found, and the remedy; empty: none is needed."""

    what: str
    health: Health
    found: str
    remedy: str = ""


def examine(project: ProjectContext | None) -> Iterator[Finding]:
    """Yield what was found: the installation, then the project's engine, places and tables, if there is a project."""
    yield Finding("python", Health.OK, f"{sys.version.split()[0]}, {sys.executable}")
    for name in _packages():
        yield Finding(name, Health.OK, version(name))
    yield from _extras(None if project is None else project.engine_plugin)
    if project is None:
        return
    yield from _engine(project)
    yield from _schema_files(project)
    if not project.is_remote:
        yield _warehouse(project)
        yield from _tables(project, _landed)
        return
    what = f"warehouse {project.config.warehouse}"
    with ExitStack() as stack:
        try:  # once for all tables, for each opening asks who calls
            engine = stack.enter_context(project.remote())
        except CdcViewsError as error:
            yield _broken(what, error)
            yield from map(_schema, project.tables)
        else:
            yield Finding(what, Health.OK, "its tables are below")
            yield from _tables(project, partial(_landed_in, engine))


def _packages() -> list[str]:
    """This package, and those that it always needs."""
    needed = [re.match(r"[\w.-]+", one) for one in requires(_PROJECT) or () if "extra ==" not in one]
    return [_PROJECT, *sorted(found[0] for found in needed if found)]


def _extras(engine: EnginePlugin | None) -> Iterator[Finding]:
    needed = None if engine is None else engine.extra
    for extra in sorted(set(EXTRA_OF.values())):
        lacking = [module for module, of in EXTRA_OF.items() if of == extra and not _is_there(module)]
        what, remedy = f"extra {extra}", f"pip install 'cdc-views[{extra}]'"
        if not lacking:
            yield Finding(what, Health.OK, "installed")
        else:
            health = Health.BROKEN if extra == needed else Health.ABSENT
            yield Finding(what, health, f"without {', '.join(lacking)}", remedy)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a package above it is missing, or half there
        return False


def _engine(project: ProjectContext) -> Iterator[Finding]:
    plugin = project.engine_plugin
    what = f"engine {plugin.name}"
    try:
        with needs(what, extra=plugin.extra):
            yield Finding(what, Health.OK, plugin.runs_on() or "installed")
    except CdcViewsError as error:
        yield _broken(what, error)


def _warehouse(project: ProjectContext) -> Finding:
    what = f"warehouse {project.config.warehouse}"
    try:
        place = project.warehouse
        if is_url(project.config.warehouse):
            return Finding(what, Health.OK, "answers" if any(True for _ in place.glob("*")) else "answers; empty")
        return _folder(what, place)
    except (CdcViewsError, OSError) as error:
        return _broken(what, error)


def _folder(what: str, place: Place) -> Finding:
    there = place
    while not there.exists():
        there = there.parent
    if not os.access(str(there), os.W_OK):
        return Finding(what, Health.BROKEN, f"{there} cannot be written", "change its permissions, or `warehouse:`")
    return Finding(what, Health.OK, "a folder" if there == place else "not there yet; the first landing makes it")


def _schema(table: TableContext) -> Finding:
    what = f"{table.name}: schema"
    try:
        return Finding(
            what, Health.OK, f"{len(table.schema.columns)} columns, key {', '.join(c.name for c in table.schema.row_key)}"
        )
    except CdcViewsError as error:
        return _broken(what, error)


def _schema_files(project: ProjectContext) -> Iterator[Finding]:
    """What looks like a slip in schema files; it may be meant."""
    for name in dict.fromkeys(config.schema_ for config in project.config.tables if not is_live_source(config.schema_)):
        try:
            notes = read_catalog(project.root / name).notes
        except CdcViewsError:
            continue  # each of its tables says so
        if notes:
            yield Finding(f"schema file {name}", Health.OK, "; ".join(notes), "correct it, unless it is meant")


def _tables(project: ProjectContext, look: Callable[[str, TableContext], Iterator[Finding]]) -> Iterator[Finding]:
    for table in project.tables:
        yield _schema(table)
        what = f"{table.name}: tables"
        try:
            yield from look(what, table)
        except CdcViewsError as error:
            yield _broken(what, error)


def _landed(what: str, table: TableContext) -> Iterator[Finding]:
    if (missing := missing_of(table)) is not None:
        yield _broken(what, missing)
        return
    found = status_of(table)
    policies = [] if found.raw_facts is None else list(_before_policies(what, table))
    if found.problem:
        yield Finding(what, Health.BROKEN, found.problem)
    yield from policies
    if found.problem or policies:
        return
    if found.raw_facts is None:
        yield Finding(what, Health.OK, "nothing has landed yet")
    elif found.quarantined:
        told = f"{found.raw_facts:,} changes landed; {found.quarantined:,} events wait in quarantine"
        yield Finding(what, Health.OK, told, f"`cdc-views quarantine list --select {table.name}`")
    else:
        yield Finding(what, Health.OK, f"{found.raw_facts:,} changes landed")


def _before_policies(what: str, table: TableContext) -> Iterator[Finding]:
    held, events = earlier(table), earlier_events(table)
    if held:
        yield Finding(what, Health.BROKEN, f"raw has values of {', '.join(held)} from before the policy of columns", REMEDY)
    elif events:
        why = f"quarantine has {events:,} events from before the policy of columns, as they came"
        yield Finding(what, Health.BROKEN, why, f"`cdc-views replay {table.name}`; then as for raw: {REMEDY}")


def _landed_in(engine: WarehouseEngine, what: str, table: TableContext) -> Iterator[Finding]:
    found = engine.standing(definition_of(table))
    yield Finding(what, Health.OK, "nothing has landed yet" if found.raw_rows is None else f"{found.raw_rows:,} changes landed")


def _broken(what: str, error: Exception) -> Finding:
    if isinstance(error, DamagedFileError):
        return Finding(what, Health.BROKEN, f"a file of the {error.what}, {error.file}: {error.why}", error.remedy)
    return Finding(what, Health.BROKEN, " ".join(str(error).split()))
