"""The commands of the compose file against real servers: PostgreSQL and a store that speaks S3."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from helpers.examples import ROOT
from helpers.producing import eventually
from helpers.watched_processes import scrape
from services import postgres, s3
from services.account import free_port

OPS = ROOT / "ops"
SERVICES = yaml.safe_load((OPS / "compose.yml").read_text())["services"]


@contextmanager
def command_of(service: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a service's own command, at another port; yield where it serves metrics."""
    listen = f"127.0.0.1:{free_port()}"
    words = [listen if word.startswith("0.0.0.0:") else word for word in SERVICES[service]["command"]]
    with (folder / f"{service}.log").open("w") as log:
        command = [sys.executable, "-m", "cdc_views", *words]
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process:
            try:
                yield listen
            finally:
                process.terminate()
                process.wait(60)


@pytest.mark.live
def test_a_row_of_the_source_is_in_the_state_on_the_store(tmp_path: Path) -> None:
    shop = Path(shutil.copytree(OPS / "shop", tmp_path / "shop"))
    with postgres.running(max_slot_wal_keep_size="1GB") as source, s3.running(tmp_path) as store:
        store.make("warehouse")
        source.sql((shop / "shop.sql").read_text())
        source.sql("INSERT INTO public.orders VALUES (1, 'open', 995, '2026-11-26 16:00:00+00')")
        given = {"STORE_URL": f"http://127.0.0.1:{store.port}", "STORE_USER": "tests", "STORE_PASSWORD": "no secret"}
        # every minute, not every five: the test waits for it
        file = shop / "cdc_views.yml"
        file.write_text(file.read_text().replace("*/5 * * * *", "* * * * *"))
        environment = os.environ | given | source.environment
        with command_of("producer", shop, environment) as producer:
            landed = 'cdc_views_snapshot_rows_total{source="postgres",table="public.orders"} 1.0'
            eventually(lambda: _has(producer, landed), within=60, what=shop / "producer.log")
            # the slot keeps at most a GiB and what a checkpoint leaves: known once it has been looked at
            limit = re.compile(r'^cdc_views_held_limit_bytes\{source="postgres"\} 1\.\d+e\+09$', re.MULTILINE)
            eventually(lambda: limit.search(scrape(producer)), what=lambda: scrape(producer))
            with command_of("materialize", shop, environment) as scheduler:
                facts = 'cdc_views_materialize_facts{table="public.orders"} 1.0'
                eventually(lambda: _has(scheduler, facts), within=120, what=shop / "materialize.log")
        query = [sys.executable, "-m", "cdc_views", "query", "public.orders", "--format", "jsonl"]
        shown = subprocess.run(query, cwd=shop, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(shown.stdout) == {"id": 1, "state": "open", "cents": 995, "changed": "2026-11-26 16:00:00Z"}
    logged = [json.loads(line) for line in (shop / "producer.log").read_text().splitlines()]
    assert {line["logger"] for line in logged} == {"cdc_views.produce.postgres"}


def _has(address: str, line: str) -> bool:
    try:
        return line in scrape(address)
    except OSError:
        return False
