"""`forget --lift` of a table whose events a database dates and orders."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.forgetting_tables import SECRET, files_with
from helpers.older_events import envelope

pytestmark = pytest.mark.heavy


def test_undated_events_land_after_a_lift_and_those_removed_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.sql").write_text("CREATE TABLE public.t (id int PRIMARY KEY, note text);")
    write_project(table("public.t", "t.sql", "debezium"))
    run, of_key = CommandLine(capsys), ("forget", "public.t", "--key", '{"id": 1}')

    def notes(note: str, lsn: int) -> list[str]:
        assert run.land("public.t", envelope(1, note, lsn=lsn, ts_ms=None), file=f"{lsn}.jsonl").code == 0
        return [row["note"] for row in run.query("public.t")]

    assert notes(SECRET, 10) == [SECRET]
    assert run(*of_key).code == 0
    assert notes("waits", 20) == []
    assert run(*of_key, "--lift").code == 0
    assert notes(SECRET, 9) == [], "what was removed stays so"
    assert notes("newer", 21) == ["newer"]
    assert files_with(SECRET) == []
