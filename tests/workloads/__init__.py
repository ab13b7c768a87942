"""Workloads to try producers with: a todo list, orders; the same changes for the same seed.

A workload on a system is a module of this package, `NAME_SYSTEM`, with `DDL`, the tables' DDL for a schema file, and
`open_workload`, an `OpenWorkload`. Nothing else is to be registered.
"""

from __future__ import annotations

from workloads.workload import WorkloadOrder, ddl_of, run_workload

__all__ = ["WorkloadOrder", "ddl_of", "run_workload"]
