"""A state belongs to one raw table: raw away and back, restored, deleted, mistyped or cut never shows fewer rows with exit 0."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine
from helpers.raw_in_doubt import AWAY, BRIEFLY, NAME, READS, begin, keys, land, raw_of, raws, refuses
from helpers.tiers import often

from cdc_views.landing.delta import append, recorded
from cdc_views.state.identity import Mark, id_digest
from cdc_views.state.state_table import TRANSACTION
from cdc_views.storage.table_log import TableLog

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    begin()
    return CommandLine(capsys)


def test_a_raw_table_that_is_gone_is_no_empty_one(run: CommandLine) -> None:
    assert land(run, 0, 4) == 0
    raws().rename(AWAY)
    for command in READS:
        assert "is gone" in refuses(run, *command)
    assert land(run, 4, 5) == 3, "landing does not begin a new one over the hole"
    told = run("validate", "--no-docs", "--format", "jsonl")
    failed = [row["check"] for row in told.rows if row["status"] == "failed"]
    assert (told.code, failed, raws().exists()) == (1, ["raw_is_the_one_known"], False)
    AWAY.rename(raws())
    assert keys(run) == [0, 1, 2, 3]


def test_a_state_tells_of_a_raw_table_that_no_record_knows(run: CommandLine) -> None:
    assert (land(run, 0, 4), run("materialize").code) == (0, 0)
    shutil.rmtree("warehouse/_cdc_views")
    raws().rename(AWAY)
    for command in BRIEFLY:
        assert "is gone" in refuses(run, *command)
    assert land(run, 4, 5) == 3


def test_raw_that_was_away_and_came_back_shows_its_rows(run: CommandLine) -> None:
    """Raw A, then B in its place, then A: A's rows, never B's by A's watermark."""
    assert (land(run, 0, 9), run("materialize").code) == (0, 0)
    raws().rename(AWAY)
    shutil.rmtree("warehouse/_cdc_views")
    shutil.move("warehouse", "warehouse.kept")
    assert land(run, 0, 2) == 0, "another checkout lands into another raw table"
    raws().rename("raw.another")
    shutil.rmtree("warehouse")
    shutil.move("warehouse.kept", "warehouse")
    Path("raw.another").rename(raws())
    for command in BRIEFLY:
        assert "another Delta table" in refuses(run, *command)
    told = run("validate", "--no-docs", "--format", "jsonl")
    assert (told.code, [row["check"] for row in told.rows if row["status"] == "failed"]) == (1, ["raw_is_the_one_known"])
    shutil.rmtree(raws())
    AWAY.rename(raws())
    assert keys(run) == list(range(9))
    answer = run("materialize")
    assert (answer.code, "up to date" in answer.err) == (0, True)
    assert (land(run, 9, 10), run("materialize").code, keys(run)) == (0, 0, list(range(10)))


def test_accepting_another_raw_table_keeps_the_state_before(run: CommandLine) -> None:
    assert (land(run, 0, 9), run("materialize").code) == (0, 0)
    raws().rename(AWAY)
    answer = run("rebuild", NAME, "--accept")
    assert (answer.code, "9 gone" in answer.err) == (0, True), answer.err
    assert keys(run) == []
    assert (land(run, 0, 2), run("materialize").code, keys(run)) == (0, 0, [0, 1])
    assert run("validate", "--no-docs").code == 0
    shutil.rmtree(raws())
    AWAY.rename(raws())
    refuses(run, "query", NAME)
    assert run("rebuild", NAME, "--back").code == 0
    assert (keys(run), run("materialize").code) == (list(range(9)), 0)
    assert run("validate", "--no-docs").code == 0


def test_the_only_copy_is_never_written_over(run: CommandLine) -> None:
    assert (land(run, 0, 9), run("materialize").code, run("maintain", "--drop-raw-older-than", "0s").code) == (0, 0, 0)
    shutil.rmtree(raws())
    for command in (*BRIEFLY, ("rebuild", NAME), ("rebuild", NAME, "--dry-run")):
        refuses(run, *command)
    assert land(run, 20, 21) == 3
    assert run("rebuild", NAME, "--accept", "--with-state").code == 0
    assert keys(run) == list(range(9))
    assert (land(run, 20, 21), run("materialize").code) == (0, 0)
    assert keys(run) == [*range(9), 20]
    needing = [("query", NAME, "--raw-only"), ("materialize", "--full"), ("rebuild", NAME), ("history", NAME)]
    for what in (*needing, ("explain", NAME, "--key", '{"id": 1, "item": 0}')):
        answer = run(*what)
        assert (answer.code, "raw does not have" in answer.err) == (2, True), (what, answer.err)
    assert run("validate", "--no-docs").code == 0
    assert (run("rebuild", NAME, "--accept").code, keys(run)) == (0, [20])
    assert (run("rebuild", NAME, "--back").code, keys(run)) == (0, [*range(9), 20])


@pytest.mark.parametrize("lands_more", often([0, 1, 2, 3], 0, 2))
def test_a_restored_raw_table_is_noticed_however_far_it_went_on(run: CommandLine, lands_more: int) -> None:
    assert land(run, 0, 5) == 0
    shutil.copytree(raws(), AWAY)
    assert (land(run, 5, 7), run("materialize").code) == (0, 0)
    shutil.rmtree(raws())
    AWAY.rename(raws())
    shutil.rmtree("warehouse/_cdc_views")
    for number in range(lands_more):
        # an agent that knows only the raw table goes on
        table = DeltaTable(str(raw_of(run)))
        append(table, table.to_pyarrow_table().slice(0, 1), transactions={"agent": number})
    for command in BRIEFLY:
        assert "restored from a backup" in refuses(run, *command)
    answer = run("validate", "--no-docs", "--format", "jsonl")
    assert answer.code == 1
    assert [row["check"] for row in answer.rows if row["status"] == "failed"] == ["raw_is_the_one_known"]
    assert run("rebuild", NAME, "--dry-run").code == 1, "it shows what differs and switches nothing"
    refuses(run, "query", NAME)
    assert (run("rebuild", NAME, "--accept", "--with-state").code, keys(run)) == (0, list(range(7)))
    assert (run("rebuild", NAME, "--accept").code, keys(run)) == (0, list(range(5)))
    assert run("validate", "--no-docs").code == 0


def test_landing_knows_a_restored_raw_table_without_a_state(run: CommandLine) -> None:
    assert land(run, 0, 5) == 0
    shutil.copytree(raws(), AWAY)
    assert land(run, 5, 7) == 0
    raws().rename("newer")
    shutil.copytree(AWAY, raws())
    refuses(run, "query", NAME)
    assert land(run, 7, 8) == 3
    shutil.rmtree(raws())
    shutil.copytree("newer", raws())
    assert keys(run) == list(range(7)), "a newer backup settles it"
    shutil.rmtree(raws())
    AWAY.rename(raws())
    refuses(run, "query", NAME)
    assert run("rebuild", NAME, "--accept").code == 0
    assert land(run, 5, 7) == 0, "what the backup lacked lands again"
    assert keys(run) == list(range(7))


def test_a_log_whose_newest_entries_were_cut_is_refused(run: CommandLine) -> None:
    assert (land(run, 0, 5), land(run, 5, 7), run("materialize").code) == (0, 0, 0)
    newest = max((raw_of(run) / "_delta_log").glob("*.json"))
    newest.unlink()
    for command in BRIEFLY:
        refuses(run, *command)


def test_a_mistyped_path_begins_nothing(run: CommandLine) -> None:
    assert (land(run, 0, 5), run("materialize").code) == (0, 0)
    text = Path("cdc_views.yml").read_text()
    project = json.loads(text)
    project["tables"][0]["raw"]["table"] = "rwa/orders"
    Path("cdc_views.yml").write_text(json.dumps(project))
    for command in BRIEFLY:
        refuses(run, *command)
    assert land(run, 5, 6) == 3
    assert not Path("rwa").exists()
    Path("cdc_views.yml").write_text(text)
    assert keys(run) == list(range(5))


def as_earlier(raw: DeltaTable, *, name: str | None = None) -> None:
    """Make the state one that an earlier version of cdc-views kept: its marks were named after raw's id alone."""
    (root,) = Path("warehouse/state").iterdir()
    log = root / "1" / "_delta_log"
    for entry in log.glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        kept = [action for action in actions if "cdc-views:state:raw" not in str(action.get("txn"))]
        for action in kept:
            if action.get("txn", {}).get("appId") == TRANSACTION:
                earlier = Mark.of(action["txn"]["version"]).version << 20
                action["txn"] |= {"appId": f"cdc-views:state:3:{name or raw.metadata().id}", "version": earlier}
        entry.write_text("".join(json.dumps(action) + "\n" for action in kept))
    for file in [*log.glob("*checkpoint*"), *log.glob(".*")]:
        file.unlink()
    shutil.rmtree("warehouse/_cdc_views")


def test_a_state_of_an_earlier_version_is_upgraded_at_the_next_run(run: CommandLine) -> None:
    assert (land(run, 0, 5), run("materialize").code) == (0, 0)
    as_earlier(DeltaTable(str(raw_of(run))))
    assert keys(run) == list(range(5))
    answer = run("materialize")
    assert (answer.code, "an earlier version of cdc-views kept it" in answer.err) == (0, True), answer.err
    (root,) = Path("warehouse/state").iterdir()
    assert recorded(DeltaTable(str(root / "1")), "cdc-views:state:raw") == id_digest(TableLog.open(str(raw_of(run))))
    assert (keys(run), run("validate", "--no-docs").code) == (list(range(5)), 0)


def test_an_earlier_state_that_is_the_only_copy_is_believed(run: CommandLine) -> None:
    assert (land(run, 0, 5), run("materialize").code, run("maintain", "--drop-raw-older-than", "0s").code) == (0, 0, 0)
    as_earlier(DeltaTable(str(raw_of(run))))
    assert keys(run) == list(range(5))
    assert (land(run, 5, 7), run("materialize").code, keys(run)) == (0, 0, list(range(7)))


def test_an_earlier_state_of_another_raw_table_is_refused(run: CommandLine) -> None:
    assert (land(run, 0, 5), run("materialize").code) == (0, 0)
    as_earlier(DeltaTable(str(raw_of(run))), name="another")
    for command in BRIEFLY:
        refuses(run, *command)


def test_a_rebuild_that_was_killed_is_nothing_to_go_back_to(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (land(run, 0, 5), run("materialize").code) == (0, 0)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cdc_views.state.run.commit_written", killed)
        assert run("rebuild", NAME).code == 130
    assert run("rebuild", NAME).code == 0
    assert run("maintain").code == 0
    assert run("rebuild", NAME, "--back").code == 0
    (root,) = Path("warehouse/state").iterdir()
    assert (root / "current").read_text().strip() == "1", "the newest that was completed"
    assert keys(run) == list(range(5))
