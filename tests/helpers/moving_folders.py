"""A project whose folders are moved, deleted and restored under it, and a model of what its rows may then be.

The model keeps events, not rows. `held` is what the raw table has, or had before `maintain --drop-raw-older-than` dropped
it. `recorded` and `stated` are what the warehouse knows to have landed, by its record of the raw table and by each
generation of the state; they come and go with their folders. A command that ends with 0 must show all of both.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc_views import Project
from cdc_views.api import Table
from cdc_views.errors import CdcViewsError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import recorded
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.state.state_table import TRANSACTION

NAME, NOW = "shop.orders", 1_800_000_000
CQL = "CREATE TABLE shop.orders (id int, item int, state text, note text, PRIMARY KEY (id, item));\n"
RAW, WAREHOUSE, STATE, RECORD = "raw", "warehouse", "warehouse/state", "warehouse/_cdc_views"
FOLDERS = (RAW, WAREHOUSE, STATE, RECORD)
COMMITS = (
    "cdc_views.landing.pipeline.appended",
    "cdc_views.engines.duckdb.state.commit",
    "cdc_views.state.run.commit_written",
    "cdc_views.state.state_table.record",
    "cdc_views.state.run.record",
    "cdc_views.storage.generations.Generations.switch",
    "cdc_views.operations.known_raw.write_whole",
)
"""Where a run makes something last: it is killed before or after one of these."""


for _lazy in (
    "operations.applying",
    "operations.history",
    "operations.maintaining",
    "operations.materializing",
    "operations.rebuilding",
    "operations.retention",
    "operations.ingest",
    "landing.streams",
):
    # one that is first imported while a function is replaced would keep the replacement
    importlib.import_module(f"cdc_views.{_lazy}")


class Killed(BaseException):
    """The process is gone."""


def event(rng: Random, number: int) -> dict[str, Any]:
    """One mutation of few rows, with write times that often tie."""
    row: dict[str, Any] = {"kind": "row", "clustering": {"item": rng.randrange(2)}}
    written = rng.randrange(1, 30)
    if rng.random() < 0.15:
        row["deletion"] = {"written": written, "deleted_at": NOW - 100}
    else:
        if rng.random() < 0.5:
            row["liveness"] = {"written": written}
        row["cells"] = [_cell(rng, column) for column in rng.sample(["state", "note"], rng.choice([1, 2]))]
    origin = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number}
    return {**origin, "keyspace": "shop", "table": "orders", "partition": {"id": rng.randrange(3)}, "rows": [row]}


def _cell(rng: Random, column: str) -> dict[str, Any]:
    written = rng.randrange(1, 30)
    if rng.random() < 0.2:
        return {"column": column, "written": written, "deleted_at": NOW - 100}
    return {"column": column, "written": written, "value": rng.choice("abc")}


@dataclass
class Model:
    """What the folders hold, by the numbers of events."""

    dropped: dict[int, int] = field(default_factory=dict)
    """And the version of raw whose log says so."""
    recorded: set[int] = field(default_factory=set)
    stated: dict[int, set[int]] = field(default_factory=dict)


@dataclass
class World:
    """One project in `folder`; `told` are the steps so far."""

    folder: Path
    rng: Random
    engine: str = "duckdb"
    model: Model = field(default_factory=Model)
    events: dict[int, list[Fact]] = field(default_factory=dict)
    backups: dict[str, list[tuple[Path, Model]]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    files: int = 0
    opened: Table | None = None

    def __post_init__(self) -> None:
        (self.folder / "schema.cql").write_text(CQL)
        raw = {"format": "cassandra-mutation", "table": f"{RAW}/orders"}  # on a disk of its own
        entry = {"name": NAME, "schema": "schema.cql", "raw": raw}
        if self.rng.random() < 0.3:
            entry["materialize"] = {"serving": {"name": "orders"}}
        project = {"name": "moved", "engine": "duckdb", "tables": [entry]}
        (self.folder / "cdc_views.yml").write_text(json.dumps(project))

    @property
    def table(self) -> Table:
        """The project's table, as a process that a step begins has it."""
        if self.opened is None:
            self.opened = Project.load(self.folder / "cdc_views.yml").table(NAME)
        return self.opened

    @property
    def current(self) -> int:
        return self.table.generations.current

    def held(self) -> set[int]:
        """What is in raw, and what was dropped from it by ourselves."""
        return self._stored() | self.model.dropped.keys()

    def _stored(self) -> set[int]:
        location = self.table.raw.location
        if not DeltaTable.is_deltatable(location):
            return set()
        stored = DeltaTable(location).to_pyarrow_table(columns=["_origin"])
        return {origin["position"] for origin in stored["_origin"].to_pylist()}

    def _version(self) -> int:
        location = self.table.raw.location
        return int(DeltaTable(location).version()) if DeltaTable.is_deltatable(location) else -1

    def expected(self) -> list[dict[str, Any]]:
        """The rows that an answer has to be: of all that is there and all that is known to have been."""
        known = self.held() | self.model.recorded | self.model.stated.get(self.current, set())
        facts = [fact for number in sorted(known) for fact in self.events[number]]
        return latest_rows(self.table.schema, facts, now=NOW)

    def check(self) -> None:
        """Every way to read answers rightly, or refuses."""
        for asked in ({}, {"raw_only": True}):
            answer = self.tried(lambda asked=asked: self.table.query(as_of=NOW, engine=self.engine, **asked).rows())
            if answer is not None:
                assert list(map(repr, answer)) == list(map(repr, self.expected())), (asked, self.told)

    def tried(self, what: Callable[[], Any]) -> Any:
        """Return what a command answers, None where it refuses; anything but an error of ours is a failure."""
        try:
            return what()
        except CdcViewsError as error:
            self.told.append(f"   refused: {type(error).__name__}: {str(error)[:200]}")
            return None

    # steps

    def land(self) -> None:
        numbers = range(len(self.events), len(self.events) + self.rng.randrange(1, 6))
        made = {number: json.dumps(event(self.rng, number)) for number in numbers}
        again = self.rng.sample(sorted(self.events), min(len(self.events), self.rng.randrange(3)))
        decoder = Decoder(self.table.raw, self.table.format, 0)
        for number, text in made.items():
            self.events[number] = decoder.facts(text.encode(), line=1, offset=0)
        self.files += 1
        file = self.folder / f"{self.files}.jsonl"
        repeated = [self._text(number) for number in again]
        file.write_text("".join(text + "\n" for text in [*made.values(), *repeated]))
        for number, text in made.items():
            (self.folder / f"event-{number}").write_text(text)
        if self.tried(lambda: self.table.land(file)) is not None:
            self.model.recorded = self.held()

    def _text(self, number: int) -> str:
        return (self.folder / f"event-{number}").read_text()

    def materialize(self) -> None:
        full = self.rng.random() < 0.2
        if self.tried(lambda: self.table.materialize(full=full, engine=self.engine, now=NOW)) is not None:
            self._stated()

    def _stated(self) -> None:
        held = self.held()
        self.model.stated[self.current] = self.model.stated.get(self.current, set()) | held
        self.model.recorded = held

    def rebuild(self) -> None:
        asked = self.rng.choice([{}, {"accept": True}, {"accept": True}, {"accept": True, "with_state": True}, {"dry_run": True}])
        self.told.append(f"   {asked}")
        before = self.model.stated.get(self.current, set())
        kept = before if asked.get("with_state") else set()
        done = self.tried(lambda: self.table.rebuild(engine=self.engine, **asked))
        if done is not None and done.is_switched:
            self.model.stated[self.current] = self.held() | kept
            self.model.recorded = self.held()

    def back(self) -> None:
        if self.tried(lambda: self.table.switch_back()) is not None:
            known = self.model.stated.setdefault(self.current, set())
            if known <= self.held():
                self.model.recorded = set()

    def maintain(self) -> None:
        self.tried(lambda: self.table.maintain())

    def drop(self) -> None:
        before = self._stored()
        options: dict[str, Any] = {"archive": self.folder / "archive"} if self.rng.random() < 0.7 else {}
        try:
            done = self.tried(lambda: self.table.drop_raw(older_than="0s", engine=self.engine, **options))
        finally:
            self.model.dropped |= dict.fromkeys(before - self._stored(), self._version())
        if done is not None:
            self._stated()

    def restore_dropped(self) -> None:
        if self.tried(lambda: self.table.restore_raw(self.folder / "archive")) is not None:
            self.model.dropped = {}

    def apply(self) -> None:
        from cdc_views.operations.applying import apply_view

        if self.tried(lambda: apply_view(self.table, engine="duckdb")) is not None:
            self.model.recorded |= self.held()

    def back_up(self) -> None:
        name = self.rng.choice(FOLDERS)
        if (self.folder / name).is_dir():
            kept = self.folder / "backups" / f"{name.replace('/', '-')}-{len(self.told)}"
            shutil.copytree(self.folder / name, kept)
            self.backups.setdefault(name, []).append((kept, deepcopy(self.model)))
            self.told.append(f"   {name}")

    def restore(self) -> None:
        if not self.backups:
            return
        name = self.rng.choice(sorted(self.backups))
        kept, model = self.rng.choice(self.backups[name])
        self._remove(name)
        shutil.copytree(kept, self.folder / name)
        self._take(name, deepcopy(model))
        self.told.append(f"   {kept.name}")

    def swap(self) -> None:
        """What is there is moved aside, and what was moved aside before comes in its place."""
        name = self.rng.choice(FOLDERS)
        here, aside = self.folder / name, self.folder / f"aside-{name.replace('/', '-')}"
        between = self.folder / "between"
        model = deepcopy(self.model)
        if here.is_dir():
            here.rename(between)
        self._take(name, Model())
        if aside.is_dir():
            here.parent.mkdir(parents=True, exist_ok=True)  # what it was in may have been moved aside itself
            aside.rename(here)
            self._take(name, self._aside.pop(name))
        if between.is_dir():
            between.rename(aside)
            self._aside[name] = model
        self.told.append(f"   {name}")

    @property
    def _aside(self) -> dict[str, Model]:
        return self.__dict__.setdefault("asides", {})

    def delete(self) -> None:
        name = self.rng.choice(FOLDERS)
        self._remove(name)
        self.told.append(f"   {name}")

    def cut_log(self) -> None:
        """The newest entry of raw's log is lost."""
        log = Path(self.table.raw.location) / "_delta_log"
        entries = sorted(log.glob("*.json"))
        if len(entries) > 1:
            entries[-1].unlink()
            for file in log.glob("*checkpoint*"):
                file.unlink()
            # without the entry that dropped them nothing in raw knows of them
            self.model.dropped = {event: at for event, at in self.model.dropped.items() if at <= self._version()}

    def take(self) -> None:
        """Delta's own commands take rows out of raw or the state, or bring them back."""
        state = self.table.generations.location(self.current)
        location = self.rng.choice([self.table.raw.location] * 2 + [state])
        self.told.append(f"   {location}")
        if not DeltaTable.is_deltatable(location):
            return
        raw = DeltaTable(location)
        before = self.rng.choice([raw.version() - 1, self.rng.randrange(raw.version() + 1)])
        if self.rng.random() < 0.4:
            raw.delete(f"id = {self.rng.randrange(3)}")
        elif before >= 0:
            with suppress(DeltaError):  # the version, or a file of it, is gone
                raw.restore(before)
                self.told.append(f"   RESTORE to {before}")

    def _remove(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self._take(name, Model())

    def _take(self, name: str, model: Model) -> None:
        """The folder is now that of `model`."""
        if name == RAW:
            self.model.dropped = model.dropped
        if name in (WAREHOUSE, STATE):
            self.model.stated = model.stated
        if name in (WAREHOUSE, RECORD):
            self.model.recorded = model.recorded

    def killed(self) -> None:
        """A command ends before or after one of the places where something is made to last."""
        step = self.rng.choice([self.land, self.materialize, self.rebuild, self.drop])
        place, times, is_after = self.rng.choice(COMMITS), self.rng.randrange(2), self.rng.random() < 0.5
        self.told.append(f"   {step.__name__} at {place} {'after' if is_after else 'before'} {times}")
        generation, record, mark = self.current, self._record(), self._mark()
        stated = self.model.stated.get(generation, set())
        try:
            with _killing(place, times, is_after=is_after):
                step()
        except Killed:
            self.told.append("   killed")
            if self.current != generation:
                self.model.stated[self.current] = self.held() | (stated if "with_state" in self.told[-2] else set())
            elif self._mark() != mark:
                self.model.stated[generation] = stated | self.held()
            if self._record() != record:
                self.model.recorded = self.held()

    def _mark(self) -> int | None:
        """How far the current state says that it reaches."""
        location = self.table.generations.location(self.current)
        return recorded(DeltaTable(location), TRANSACTION) if DeltaTable.is_deltatable(location) else None

    def _record(self) -> list[bytes]:
        return [file.read_bytes() for file in (self.folder / RECORD).rglob("*.json")]

    def step(self) -> None:
        """One of them, and a look at what can be read."""
        steps = [self.land] * 6 + [self.materialize] * 6 + [self.rebuild] * 3 + [self.killed] * 3 + [self.swap] * 2
        steps += [self.back_up] * 4 + [self.restore] * 3 + [self.delete, self.cut_log, self.maintain, self.drop]
        steps += [self.restore_dropped, self.back, self.apply, self.take, self.take]
        chosen = self.rng.choice(steps)
        self.told.append(chosen.__name__)
        self.opened = None
        chosen()
        self.opened = None
        self.check()


@contextmanager
def _killing(place: str, times: int, *, is_after: bool) -> Iterator[None]:
    seen = 0
    module, _, name = place.rpartition(".")
    try:
        owner: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        above, _, kind = module.rpartition(".")
        owner = getattr(importlib.import_module(above), kind)
    original = getattr(owner, name)

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen <= times:
            return original(*given, **named)
        if is_after:
            original(*given, **named)
        raise Killed

    with patch.object(owner, name, counted):
        yield
