"""What a workload is, how one is found, and its pace."""

from __future__ import annotations

import pkgutil
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import Protocol

from cdc_views.errors import TransientError, UsageError, did_you_mean
from cdc_views.model.extras import needs

_PACKAGE = "workloads"
_LONGEST_AWAY = 60.0


class Workload(Protocol):
    """Changes of some tables of one system, one a step."""

    def prepare(self) -> None:
        """Create the tables where they are not there, and take note of the rows that are."""

    def step(self) -> str:
        """Make one change and return its kind: insert, update, delete.

        Raises:
            TransientError: It was not made, or nobody knows; the next step may go through.
        """

    def close(self) -> None:
        """Let go of the connection."""


OpenWorkload = Callable[[str, random.Random], Workload]
"""`open_workload(address, chance)`; raises `UsageError` for an address that is none, without showing it."""


@dataclass(frozen=True, slots=True)
class WorkloadOrder:
    """What is to be done; `events` and `seconds` are limits, None: none.

    Attributes:
        name: todo, orders.
        system: postgres, mariadb, cassandra.
        address: Where the system is, as its client takes it.
        seed: The same changes for the same seed, on empty tables.
        every: Seconds from one change to the next; 0: as fast as it goes.
    """

    name: str
    system: str
    address: str
    seed: int = 0
    every: float = 0.5
    events: int | None = None
    seconds: float | None = None


def run_workload(order: WorkloadOrder, stop: Event) -> Mapping[str, int]:
    """Make changes until told to stop, or a limit is reached; returns how many of each kind were made."""
    workload = _found(order.name, order.system)(order.address, random.Random(order.seed))
    try:
        workload.prepare()
        return _paced(workload, order, stop)
    finally:
        workload.close()


def _paced(workload: Workload, order: WorkloadOrder, stop: Event) -> Mapping[str, int]:
    made: Counter[str] = Counter()
    begun, away_since = time.monotonic(), 0.0
    for number in range(1, 1 << 62):
        if stop.is_set() or (order.events is not None and made.total() >= order.events):
            break
        if order.seconds is not None and time.monotonic() - begun >= order.seconds:
            break
        try:
            made[workload.step()] += 1
            away_since = 0.0
        except TransientError:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > _LONGEST_AWAY:
                raise
            stop.wait(0.5)
        # counted from the beginning, so that a slow change does not slow down the rest
        stop.wait(max(0.0, begun + number * order.every - time.monotonic()))
    return made


def ddl_of(name: str, system: str) -> str:
    """Return the DDL of a workload's tables, for a schema file."""
    return str(_module(name, system).DDL)  # type: ignore[attr-defined]


def _found(name: str, system: str) -> OpenWorkload:
    made: OpenWorkload = _module(name, system).open_workload  # type: ignore[attr-defined]
    return made


def _module(name: str, system: str) -> object:
    known = known_workloads()
    if (name, system) not in known:
        there = ", ".join(f"{workload} on {where}" for workload, where in sorted(known))
        names = sorted({workload for workload, _ in known})
        hint = did_you_mean(name, names) if name not in names else ""
        raise UsageError(f"there is no workload {name} on {system}{hint}; there is {there}")
    with needs(f"workload {name} on {system}", extra="producers"):
        return import_module(f"{_PACKAGE}.{name}_{system}")


def known_workloads() -> set[tuple[str, str]]:
    """Return (name, system) of each workload there is: the modules beside this one named so."""
    names = [module.name for module in pkgutil.iter_modules(import_module(_PACKAGE).__path__)]
    return {(name.partition("_")[0], name.partition("_")[2]) for name in names if "_" in name}
