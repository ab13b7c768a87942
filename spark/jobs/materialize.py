"""Bring the state of some tables up to date on a cluster: `spark-submit spark/jobs/materialize.py --table shop.orders`.

The session is spark-submit's own; docs/how-to/schedule.md has the settings that it needs.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from cdc_views import Project
from cdc_views.operations.scheduling import job_of


def main() -> None:
    """Run each table once, one after the other, waiting for another run of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", default="cdc_views.yml")
    parser.add_argument("--table", action="append", default=[], help="may be repeated; default: all")
    parser.add_argument("--full", action="store_true", help="build state from all of raw")
    parser.add_argument("--wait", type=float, default=600.0, help="seconds to wait for another run of a table")
    options = parser.parse_args()
    for table in Project.load(options.project).select(options.table):
        SparkSession.builder.getOrCreate()  # cdc-views uses the session that is open, and closes it
        outcome = job_of(table, engine="spark").run(full=options.full, wait=options.wait)
        print(f"{table.name}: {outcome.line()}")


if __name__ == "__main__":
    main()
