"""`python -m workloads`: insert, update and delete at a source, to try its producer.

`todo` on PostgreSQL, `orders` on Cassandra and MariaDB. It creates its tables where they are not there, and changes
nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from threading import Event

from cdc_views.errors import CdcViewsError
from cdc_views.operations.scheduling import run_until_stopped
from workloads import WorkloadOrder, ddl_of, run_workload

VARIABLES = {"postgres": "CDC_VIEWS_POSTGRES_DSN", "mariadb": "CDC_VIEWS_MARIADB_URL", "cassandra": "CDC_VIEWS_CASSANDRA"}


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workloads", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="todo or orders")
    system = parser.add_mutually_exclusive_group(required=True)
    for name, variable in VARIABLES.items():
        system.add_argument(f"--{name}", metavar="ADDRESS", help=f"where; env: {variable}, else the client's own variables")
    parser.add_argument("--every", metavar="SECONDS", type=float, default=0.5, help="from one change to the next")
    parser.add_argument("--seed", type=int, default=0, help="the same changes for the same seed, on empty tables")
    parser.add_argument("--events", metavar="N", type=int, help="stop after so many changes")
    parser.add_argument("--seconds", metavar="S", type=float, help="stop after so long")
    parser.add_argument("--ddl", action="store_true", help="print the tables' DDL, for a schema file, and do nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    given = options().parse_args(arguments)
    ((system, address),) = [(name, found) for name in VARIABLES if (found := getattr(given, name)) is not None]
    try:
        if given.ddl:
            print(ddl_of(given.name, system), end="")
        else:
            address = os.environ.get(VARIABLES[system], "") if address == "env" else address
            limits = {"seed": given.seed, "every": given.every, "events": given.events, "seconds": given.seconds}
            _run(WorkloadOrder(given.name, system, address, **limits))
    except CdcViewsError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(order: WorkloadOrder) -> None:
    def until(stop: Event) -> None:
        made = run_workload(order, stop)
        counts = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(made.items())) or "no changes"
        print(f"made {counts}", file=sys.stderr)

    print(f"workload {order.name} on {order.system}, seed {order.seed}", file=sys.stderr)
    run_until_stopped(until, on_stop=lambda: None)


if __name__ == "__main__":
    sys.exit(main())
