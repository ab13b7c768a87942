"""A project whose runs are processes of their own, killed at random moments."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from cdc_views import Project
from cdc_views.api import Table
from cdc_views.state import sources_of
from helpers.reading import SEED

KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "3"))

CASE, TABLE = "wide3", "hid211.orders"

NARROW, NARROW_TABLE = "names3", "hid311.OrderItems"
"""A table that Spark plans fast."""

FAST_JVM = "-XX:TieredStopAtLevel=1"
"""For JVMs that live for seconds."""


class Live:
    """A project whose event file grows, and the rows that it should show in the end."""

    def __init__(self, folder: Path, cases: Path, *, engine: str) -> None:
        self.folder, self._rng = folder, random.Random(SEED)
        name, case = (TABLE, cases / CASE) if engine == "duckdb" else (NARROW_TABLE, cases / NARROW)
        table = {"name": name, "schema": str(case / "schema.cql"), "raw": {"format": "cassandra-mutation"}}
        config = {"name": "crashes", "engine": engine, "warehouse": "warehouse", "tables": [table]}
        (folder / "cdc_views.yml").write_text(json.dumps(config))
        lines = [line for n in (1, 2, 3) for line in (case / f"node{n}.jsonl").read_text("utf-8").splitlines()]
        self._rng.shuffle(lines)
        self._lines = lines
        answer = json.loads((case / "expected_early.json").read_text("utf-8"))
        self.now, self.rows = answer["as_of"], len(answer["rows"])
        self.table: Table = Project.load(folder / "cdc_views.yml").table(name)

    def land(self, share: float) -> None:
        """Land a share of what waits, as a file of its own."""
        self.table.land(self.batch(share))

    def batch(self, share: float) -> Path:
        """Return a file of a share of what waits."""
        count = max(1, int(len(self._lines) * share))
        batch, self._lines = self._lines[:count], self._lines[count:]
        file = self.folder / f"events{len(self._lines)}.jsonl"
        file.write_text("".join(line + "\n" for line in batch), "utf-8")
        return file

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Begin a run in a process of its own."""
        command = [sys.executable, "-m", "cdc_views", "materialize", "--project", str(self.folder / "cdc_views.yml")]
        settings = {**os.environ, "JAVA_TOOL_OPTIONS": FAST_JVM, **environment}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=pipe, start_new_session=True)

    def check(self, *, has_state: bool) -> None:
        """State and tail, or state at rest, show what raw shows."""
        assert (sources_of(self.table.raw, self.table.state_location) is not None) >= has_state
        hybrid, raw = self.texts(raw_only=False), self.texts(raw_only=True)
        assert hybrid == raw
        assert raw

    def texts(self, *, raw_only: bool) -> list[str]:
        """The rows as JSON, by DuckDB: whoever wrote the state, it reads it."""
        rows = self.table.query(as_of=self.now, raw_only=raw_only, engine="duckdb").json_rows()
        return sorted(json.dumps(row, sort_keys=True) for row in rows)
