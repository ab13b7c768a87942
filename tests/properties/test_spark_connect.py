"""`Table.dataframe` of a Spark Connect session, whose server is another process: it shows what the oracle shows.

CDC_VIEWS_HISTORIES and CDC_VIEWS_SEED as in test_state.py.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.feather as feather
import pytest
from helpers.document_shell import without_java
from helpers.growing_states import merge_next
from helpers.histories import NOW, Histories, histories
from helpers.projects import add, project_of
from helpers.reading import CASES, SEED, assert_same, one_spelled
from helpers.schemas import BIGINT, INT, LOGGED, TEXT, Subject, table
from helpers.spark_views import assert_shows, shown_rows
from helpers.state_sizes import set_sizes

from cdc_views.engines.base import Sources
from cdc_views.engines.exact import rows_of
from cdc_views.plan.parts import Source
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import sources_of
from cdc_views.table import Table

pytest.importorskip("pyspark")

from services import spark_connect

FEW = Subject(table("few", partition={"case": INT}, clustering={"c": INT}, regulars={"v": BIGINT, "t": TEXT}))
"""Without statics and collections: Spark's plan over state and tail takes long to make, and each is made once here."""

pytestmark = [pytest.mark.spark, pytest.mark.heavy]

_CLIENT_TAKES = 300.0
"""Seconds, on a busy machine."""
_INTERPRETED = {"spark_sql_codegen_wholeStage": "false", "spark_sql_codegen_factoryMode": "NO_CODEGEN"}
"""As the session of the other tests: few rows are read in less time than Java is compiled for them."""


@dataclass
class Kept:
    """A project of one table, in a folder of its own."""

    folder: Path
    subject: Subject
    table: Table = field(init=False)
    made: Histories = field(init=False)
    landed: list[Fact] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        os.chdir(self.folder)
        self.table = project_of(self.subject.schema, self.subject.order.value)
        Path("schema.pickle").write_bytes(pickle.dumps(self.subject.schema))
        self.made = histories(self.subject, cases=min(CASES, 200), seed=SEED)

    def land(self, facts: Sequence[Fact]) -> None:
        """Land facts in one commit."""
        add(self.table, facts)
        self.landed += facts

    @property
    def sources(self) -> Sources | None:
        """State and tail."""
        return sources_of(self.table.raw, self.table.state_location)

    def check(self) -> None:
        """Compare what the client wrote with the oracle's rows."""
        schema, relation = self.subject.schema, self.table.raw.relation
        assert_shows(schema, shown_rows(feather.read_table(self.folder / "shown.arrow"), schema), self.landed, now=NOW)
        found = list(rows_of(relation, (), feather.read_table(self.folder / "read.arrow")))
        expected = latest_rows(schema, self.landed, now=NOW)
        assert_same(one_spelled(schema, expected), one_spelled(schema, found), of=self.made, how="the engine over Connect")


def without_state(folder: Path, subject: Subject) -> Kept:
    """All facts in raw, nothing materialized."""
    kept = Kept(folder, subject)
    kept.land(kept.made.early)
    kept.land(kept.made.late)
    return kept


def with_state(folder: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Half of the facts in a base, more merged into it, which hides rows of it, and a tail."""
    set_sizes(monkeypatch, worn_share=2)  # or buckets with hidden rows are rewritten at once
    kept = Kept(folder, subject)
    late, third = kept.made.late, len(kept.made.late) // 3
    kept.land(kept.made.early)
    merge_next(monkeypatch, "base")
    kept.table.materialize()
    kept.land(late[:third])
    merge_next(monkeypatch, "merge", at_once=True)
    kept.table.materialize()
    kept.land(late[third:])
    return kept


@pytest.fixture(scope="module")
def connect_url() -> Iterator[str]:
    """A server's."""
    with spark_connect.running(**_INTERPRETED) as server:
        yield server.url


def run_client(url: str, *kept: Kept) -> str:
    """Let a process without a JVM read the tables; returns what it prints."""
    command = [sys.executable, "-m", "helpers.spark_connect_client", url, str(NOW), *(str(one.folder) for one in kept)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    java = without_java(kept[0].folder, os.environ["PATH"])
    environment = {**os.environ, **java, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_CLIENT_TAKES, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(kept[0].folder.rglob("java.started"))
    return done.stdout.strip()


def test_a_frame_over_connect_shows_what_the_oracle_shows(
    connect_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = [without_state(tmp_path / "raw", FEW), with_state(tmp_path / "state", FEW, monkeypatch)]
    kept.append(with_state(tmp_path / "logged", LOGGED, monkeypatch))
    hidden = [one.sources is not None and bool(one.sources.parts.of(Source.ALL).masked) for one in kept]
    tails = [one.sources is not None and one.sources.parts.has(Source.TAIL) for one in kept]
    assert hidden[:2] == [False, True]  # a truncate hides a whole base, or nothing of it
    assert tails == [False, True, True]
    assert run_client(connect_url, *kept) == "pyspark.sql.connect.session"
    for one in kept:
        one.check()
