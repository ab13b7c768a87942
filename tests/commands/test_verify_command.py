"""The command `verify`: exit codes, lines, the record in `status`, metrics, and runs that go on."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path
from threading import Timer

import pytest
from helpers.command_line import CommandLine
from helpers.live_memory import NOW, TABLE, MemoryLive, table_of

from cdc_views.api import Project
from cdc_views.errors import TransientError
from cdc_views.landing import Position
from cdc_views.operations.run_records import runs_of
from cdc_views.operations.verifying.findings import Verification
from cdc_views.operations.verifying.load import Bounds
from cdc_views.pages.server.site import Asked, Site
from cdc_views.project.paths import slug_of


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryLive:
    """Three rows that have landed; the source's address is memory://."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERE", "here")
    made = MemoryLive(table_of(tmp_path, source="memory://${HERE}"))
    monkeypatch.setattr("cdc_views.operations.verifying.run.live_source", lambda address: lambda *_: nullcontext(made))
    for number in (1, 2, 3):
        made.put(number, "s", number)
    made.land()
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def test_equal_then_lost(live: MemoryLive, run: CommandLine, tmp_path: Path) -> None:
    assert run("verify", "items").code == 0
    live.put(2, "t", 2)
    live.land()
    equal = run("verify", "items", "--format", "jsonl", "--metrics", "verify.prom")
    assert (equal.code, equal.out) == (0, "")
    assert f"{TABLE}: equal, 0 cells lost, 0 late" in equal.err
    assert "queries, 3 rows in" in equal.err
    (row,) = run("status", "--format", "jsonl").rows
    proven = f"{live.lsn} ("
    assert str(row["verified_through"]).startswith(proven)
    live.put(2, "new", 2)
    live.land(losing=lambda _: True)
    lost = run("verify", "items", "--format", "jsonl", "--wait", "2", "--metrics", "verify.prom")
    assert lost.code == 1, lost.err
    (row,) = lost.rows
    shown = [row[name] for name in ("key", "column", "source", "view", "verdict", "place", "what", "rule", "candidates")]
    assert shown == [{"id": 2}, "state", "new", "t", "loss", "raw", "missing write", "C2.1", 2]
    (row,) = run("status", "--format", "jsonl").rows
    assert row["verified_through"].startswith(proven)
    assert "; 1 cells lost at" in row["verified_through"]
    assert runs_of(live.table.project, "verify")[-1].tables[TABLE]["losses"] == 1, "alerts are told of it"
    told = Path("verify.prom").read_text()
    assert f'cdc_views_verify_lost_cells{{table="{TABLE}"}} 1.0' in told
    assert "cdc_views_verify_verified_through_timestamp_seconds" in told
    file = tmp_path / "cdc_views.yml"
    site = Site(lambda: Project.load(file), file)
    page = site.page(site.table(slug_of(TABLE)), "proof", Asked({}, int(NOW.timestamp())))
    assert f"found equal at <code>{proven.removesuffix(' (')}</code>" in page
    assert "1 cells lost" in page


def test_where_nothing_lands_people_see_a_few_rows(live: MemoryLive, run: CommandLine) -> None:
    for number in range(100, 140):
        live.put(number, "late" * 100, number)
    answer = run("verify", "items", "--wait", "0")
    assert (answer.code, answer.out.count("not landed yet")) == (0, 20), answer.err
    assert "20 of 40 differing cells are shown; `--format jsonl` prints all" in answer.err
    assert max(map(len, answer.out.splitlines())) < 600
    assert len(run("verify", "items", "--wait", "0", "--format", "jsonl").rows) == 40


def test_it_waits_for_the_first_landing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine, live: MemoryLive
) -> None:
    shutil.rmtree(tmp_path / "warehouse")
    answer = run("verify", "items", "--wait", "0.3")
    assert (answer.code, answer.out) == (3, "")
    assert f"{TABLE}: nothing has landed within 0.3 s; start the producer, or wait longer with --wait" in answer.err
    (record,) = runs_of(live.table.project, "verify")
    assert (record.tables[TABLE]["failed"], record.tables[TABLE]["verdict"]) == (True, "failed"), "alerts are told of it"
    live.table.stream("slot:snapshot").land([], through=Position(100, 1), now=NOW)
    live.table.stream("slot:confirmed").land([], through=Position(0), now=NOW)
    answer = run("verify", "items", "--wait", "0.3")
    assert (answer.code, "the first snapshot has not landed within 0.3 s" in answer.err) == (3, True), answer.err
    live.landed_to = 0
    landing = Timer(1.0, live.land)
    landing.start()
    answer = run("verify", "items", "--wait", "30")
    landing.join()
    assert (answer.code, f"{TABLE}: equal" in answer.err) == (0, True), answer.err


def test_its_options_bound_the_load(live: MemoryLive, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def noting(*_: object, bounds: Bounds, **__: object) -> Verification:
        given.append(bounds)
        return Verification(TABLE)

    monkeypatch.setattr("cdc_views.operations.verifying.run.verify_table", noting)
    options = ("--sample", "2", "--rate", "500", "--chunk", "7", "--time-limit", "9", "--wait", "4")
    assert run("verify", "items", *options).code == 0
    assert given == [Bounds(sample=2, rate=500, chunk=7, seconds=9, wait=4)]


@pytest.mark.parametrize(("is_lost", "code"), [(False, 0), (True, 1)])
def test_it_goes_on_until_a_signal_though_the_source_goes_away(
    is_lost: bool, code: int, live: MemoryLive, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk, asked = live.chunk, []
    live.put(2, "new", 2)
    live.land(losing=lambda _: is_lost)

    def failing(resume: str, *, limit: int) -> object:
        asked.append(resume)
        if len(asked) == 1:
            raise TransientError("the source is away")
        if len(asked) == 3:
            Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return chunk(resume, limit=limit)

    monkeypatch.setattr(live, "chunk", failing)
    answer = run("verify", "items", "--every", "1s")
    assert (answer.code, len(asked)) == (code, 3), answer.err
    assert "the source is away; the next run is in 1 s" in answer.err


def test_it_goes_on_though_its_metrics_cannot_be_written_any_more(
    live: MemoryLive, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk, folder = live.chunk, Path("metrics")
    folder.mkdir()

    def removing(resume: str, *, limit: int) -> object:
        shutil.rmtree(folder)
        Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return chunk(resume, limit=limit)

    monkeypatch.setattr(live, "chunk", removing)
    answer = run("verify", "items", "--every", "1s", "--metrics", "metrics/verify.prom")
    assert answer.code == 0, answer.err
    assert "warning cdc_views.verify: --metrics metrics/verify.prom: No such file or directory" in answer.err
    assert "equal, 0 cells lost" in answer.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--metrics", "nowhere/verify.prom"], 2, "name a folder that is there"),
        (["--every", "soon"], 2, "--every is 'soon'"),
        (["--metrics", "verify.txt"], 2, "a name that ends in .prom was expected"),
        (["--at", "9999", "--wait", "0"], 3, "has not landed within 0 s"),
    ],
)
def test_what_cannot_be_is_said(live: MemoryLive, run: CommandLine, options: list[str], code: int, said: str) -> None:
    answer = run("verify", "items", *options)
    assert (answer.code, said in answer.err) == (code, True), answer.err


def test_a_table_without_a_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine) -> None:
    monkeypatch.chdir(tmp_path)
    table_of(tmp_path)
    answer = run("verify", "items")
    assert (answer.code, "has no `source`" in answer.err) == (2, True), answer.err
    monkeypatch.setenv("A_KEY", "a key of the tests, long enough")
    table_of(tmp_path, columns={"id": {"policy": "hash", "key": "${A_KEY}"}})
    hashed = run("verify", "items", "--source", "postgresql://")
    assert (hashed.code, "has a policy on id, a column of its key" in hashed.err) == (2, True), hashed.err
    table_of(tmp_path)
    unknown = run("verify", "items", "--source", "oracle://here")
    assert (unknown.code, "choose one of cassandra, mariadb, mysql" in unknown.err) == (2, True), unknown.err
