"""Workloads to try producers with: a todo list, orders; the same changes for the same seed.

A workload on a system is a module of this package, `NAME_SYSTEM`, with `DDL`, the tables' DDL for a schema file, and
`open_workload`, an `OpenWorkload`. Nothing else is to be registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

from cdc_producers.generator.workload import WorkloadOrder, ddl_of, run_workload


def run(order: Mapping[str, Any], stop: Event) -> Mapping[str, int]:
    """Run a workload by the names of `WorkloadOrder`: what the command line calls."""
    return run_workload(WorkloadOrder(**order), stop)


__all__ = ["WorkloadOrder", "ddl_of", "run", "run_workload"]
