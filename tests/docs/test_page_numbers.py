"""Numbers that pages print are those of the code: each piece of a page is built from the constant that it is about."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.cassandra import lists
from cdc_producers.cassandra.options import CassandraOptions
from cdc_producers.mariadb import server as mariadb
from cdc_producers.mysql import server as mysql
from cdc_producers.postgres import slots
from cdc_producers.queue import Limits
from cdc_views_bigquery.config import BigQueryConfig
from cdc_views_bigquery.limits import AUTHORIZED, QUERY_BYTES, VIEW_CHARACTERS
from cdc_views_bigquery.state import SETTLE_SHARE
from cdc_views_spark.choosing import KERNEL_BYTES
from cdc_views_spark.data_source import MOST_BYTES
from cdc_views_spark.plugin import SparkPlugin
from cdc_views_spark.session import DELTA_JAR
from helpers.document_blocks import LIVE, read_blocks
from services import mariadb as tested_mariadb
from services import mysql_programs as tested_mysql
from services.cassandra_releases import CURRENT, EARLIER
from services.debezium import VERSION as DEBEZIUM
from services.kafka import BROKER

from cdc_views.cli.commands_query import replicas
from cdc_views.cli.commands_validate import report, validate
from cdc_views.cli.commands_verify import verify
from cdc_views.cli.commands_warehouse import cost
from cdc_views.cli.printing import MOST_SHOWN
from cdc_views.export.dbt.sources import _WARN_DEFAULT
from cdc_views.landing import backfill, pacing
from cdc_views.landing.denylist import AHEAD
from cdc_views.landing.vacuum import ORPHANED_AFTER
from cdc_views.operations.answers import MOST_COMPARED
from cdc_views.operations.maintaining import USUAL_HOURS
from cdc_views.pages.report.collecting import RECENT
from cdc_views.quality.sampling import recomputed
from cdc_views.state.sizes import Sizes

ROOT = Path(__file__).parents[2]
LIMITS = Limits()
AZURITE = json.loads((ROOT / "tests/services/azurite/package.json").read_text(encoding="utf-8"))["dependencies"]["azurite"]
AGENT = {one.name: one.default for one in fields(CassandraOptions)}
FACTS = {1 << digits: most for most, digits in Sizes().run_digits}
"""The most facts of a table with so many buckets."""
LIVE_BLOCKS = [one for one in read_blocks((ROOT / "docs/tutorials/postgres.md").read_text(encoding="utf-8")) if one.mark == LIVE]
OWN = sum(bool(line.strip()) for block in LIVE_BLOCKS for line in block.text.splitlines())
"""Commands for a reader's own PostgreSQL."""
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
_WORDS = {8: "eight", 9: "nine", 10: "ten"}
_SPANS = {1: "one second", 60: "a minute", 3_600: "an hour", 86_400: "a day"}
_MIB, _MB = 1 << 20, 1_000_000


def usual(command: Callable[..., Any], option: str) -> Any:
    return inspect.signature(command).parameters[option].default


def pinned(package: str) -> str:
    found = re.search(rf'"{package}==([\d.]+)"', PYPROJECT)
    assert found, f"pyproject.toml pins no {package}"
    return found[1]


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def locked(name: str) -> str:
    pins = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^(?:apache-)?{name}==(\d+\.\d+)", pins, re.MULTILINE)
    assert found, f"requirements/{name}.txt pins no {name}"
    return found[1]


def span(seconds: float) -> str:
    return _SPANS.get(int(seconds), f"{seconds:g} s")


NUMBERS = [
    ("README.md", f"Python {re.findall(r'requires-python = .>=([0-9.]+)', PYPROJECT)[0]} or newer"),
    ("README.md", f"in {_WORDS[OWN]} commands"),
    ("README.md", f"Version {re.findall(r'^version = .([0-9]+[.][0-9]+)', PYPROJECT, re.MULTILINE)[0]}: stored"),
    ("docs/explanation/state.md", f"`--retention-hours` ago (default {USUAL_HOURS})"),
    ("docs/how-to/erasure.md", f"in a file under {span(ORPHANED_AFTER)}"),
    ("docs/how-to/object-store.md", f"Azurite {AZURITE.rpartition('.')[0]}:"),
    ("docs/how-to/object-store.md", f"so a hundred land every {span(pacing.LONGEST).removeprefix('a ')}"),
    ("docs/how-to/operate.md", f"`cdc_views_queue_rows` near {LIMITS.queue_rows:,} or"),
    ("docs/how-to/operate.md", f"`cdc_views_queue_bytes` near {LIMITS.queue_bytes // _MIB} MiB"),
    ("docs/how-to/rebuild.md", f"at most {MOST_COMPARED:,} differing rows"),
    ("docs/how-to/replicas.md", f"`--silent-after` (default `{usual(replicas, 'silent_after')}`)"),
    ("docs/how-to/report.md", f"the `--recent` ({RECENT}) rows"),
    ("docs/how-to/report.md", f"the `--recent` ({usual(report, 'recent')}) rows"),
    ("docs/how-to/schedule.md", f"--packages {':'.join(DELTA_JAR)} "),
    ("docs/how-to/schedule.md", f"with Airflow {locked('airflow')} and Dagster {locked('dagster')}."),
    (
        "docs/how-to/serving.md",
        f"A bucket is the whole table up to {FACTS.get(1, 0):,} facts, a 16th at {FACTS.get(16, 0):,}, "
        f"a 256th at {FACTS.get(256, 0) // 1_000_000} million.",
    ),
    ("docs/how-to/sources/cassandra-agent.md", f"newer (tested: {CURRENT.version}, {', '.join(EARLIER)})"),
    ("docs/how-to/sources/cassandra-agent.md", f"has landed (`--after {AGENT['after'].value}`;"),
    ("docs/how-to/sources/cassandra-agent.md", f"warns from {AGENT['warns_at']} of `cdc_total_space`"),
    ("docs/how-to/sources/cassandra-snapshot.md", f"--snapshot {AGENT['snapshot'].value} # the default"),
    ("docs/how-to/sources/cassandra-snapshot.md", f"default {AGENT['snapshot_consistency']}. It sees"),
    ("docs/how-to/sources/cassandra-snapshot.md", f"least {lists._DUE_AFTER:g} seconds later"),
    ("docs/how-to/sources/http.md", f"Tested with Debezium Server {DEBEZIUM.removesuffix('.Final')}."),
    ("docs/how-to/sources/kafka.md", f"Tested on Kafka {BROKER[2]}, not with a real registry."),
    ("docs/how-to/sources/kafka.md", f"spark-sql-kafka-0-10_2.13:{pinned('pyspark')}`"),
    ("docs/how-to/sources/mariadb.md", f"MariaDB {dotted(mariadb._OLDEST)} or newer (tested: {tested_mariadb.BINARIES[2]})"),
    (
        "docs/how-to/sources/mariadb.md",
        f"MySQL {dotted(mysql._OLDEST)} or newer (tested: {tested_mysql._OLD[2]}, {tested_mysql._CURRENT})",
    ),
    ("docs/how-to/sources/postgres.md", f"[{_WORDS[OWN].capitalize()} commands from nothing]"),
    ("docs/how-to/sources/postgres.md", f"warns above {slots.SlotWatcher.held_bytes_warning >> 30} GiB"),
    ("docs/how-to/sources/postgres.md", f"standbys of PostgreSQL {slots._FAILS_OVER_FROM // 10_000} keep"),
    ("docs/how-to/sources/postgres.md", f"from a standby (PostgreSQL {slots._DECODES_ON_STANDBYS_FROM // 10_000})"),
    ("docs/how-to/sources/producers.md", f"at most {LIMITS.queue_rows:,} events or {LIMITS.queue_bytes // _MIB} MiB wait"),
    (
        "docs/how-to/sources/producers.md",
        f"at {LIMITS.batch_rows:,} events, {LIMITS.batch_bytes // _MIB} MiB or {span(LIMITS.batch_seconds)}.",
    ),
    ("docs/how-to/sources/producers.md", f"stayed away {LIMITS.stop_seconds:g} s after SIGTERM"),
    ("docs/how-to/tools/bigquery.md", f"{BigQueryConfig.model_fields['maximum_bytes_billed'].default} where nothing is said"),
    ("docs/how-to/tools/bigquery.md", f"{QUERY_BYTES // _MIB} MB a statement"),
    ("docs/how-to/tools/bigquery.md", f"and {AUTHORIZED:,} views"),
    ("docs/how-to/tools/bigquery.md", f"more than {VIEW_CHARACTERS >> 10} K characters"),
    ("docs/how-to/tools/bigquery.md", f"weighs {'a fifth' if SETTLE_SHARE == 0.2 else SETTLE_SHARE} of it"),
    ("docs/how-to/tools/dbt.md", f"else warns after a {_WARN_DEFAULT['warn_after']['period']}"),
    ("docs/how-to/tools/spark.md", f"| pyspark | {pinned('pyspark')} |"),
    ("docs/how-to/tools/spark.md", f"| delta-spark | {pinned('delta-spark')} (jar `{':'.join(DELTA_JAR)}`) |"),
    ("docs/how-to/tools/spark.md", f"'pyspark[connect]=={pinned('pyspark')}'"),
    ("docs/how-to/tools/spark.md", f"For {MOST_BYTES // _MB} MB of files or more"),
    ("docs/how-to/tools/spark.md", f"new ones have {SparkPlugin.spread_from // _MIB} MB together"),
    ("docs/how-to/tools/spark.md", f"takes up to {backfill._WAVE_FILES} files"),
    ("docs/how-to/tools/spark.md", f"rewrite {SparkPlugin.spread_from // _MIB} MB or more"),
    ("docs/how-to/tools/spark.md", f"less than {KERNEL_BYTES // _MB} MB of files"),
    ("docs/how-to/validate.md", f"above {usual(recomputed, 'most'):,} facts"),
    ("docs/how-to/validate.md", f"is over {span(AHEAD // 1_000_000)} ahead"),
    ("docs/how-to/validate.md", f"more than {usual(validate, 'docs_rows'):,} rows (`--docs-rows`)"),
    ("docs/how-to/verify.md", f"the next {usual(verify, 'sample'):,} rows"),
    ("docs/how-to/write-from-the-future.md", f"facts written more than {span(AHEAD // 1_000_000)} ahead"),
    ("docs/how-to/write-rows.md", f"at most {MOST_SHOWN:,} rows"),
    (
        "docs/tutorials/bigquery.md",
        f"each day has {usual(cost, 'queries_per_day')} reads, {usual(cost, 'runs_per_day')} runs of `materialize` "
        f"and {usual(cost, 'facts_per_day'):,} new events",
    ),
]


@pytest.mark.parametrize(("page", "piece"), NUMBERS, ids=[f"{page}-{piece[:40]}" for page, piece in NUMBERS])
def test_a_number_on_a_page_is_the_one_of_the_code(page: str, piece: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert text.count(piece.strip()) == 1, f"{page} does not say once: {piece}"
