"""Files that are replaced as a whole, and lines of the log, by several threads at once."""

from __future__ import annotations

import io
import json
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdc_views.cli.log import Log
from cdc_views.model.whole_files import write_whole


def test_writers_at_once_leave_one_of_their_texts(tmp_path: Path) -> None:
    file, texts = tmp_path / "record.json", [f"{number}" * 5000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: write_whole(file, texts[number % 8]), range(160)))
    assert file.read_text() in texts
    assert [found.name for found in tmp_path.iterdir()] == ["record.json"]


def test_what_was_there_stays_where_the_new_text_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_whole(file, "before", mode=0o600)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "half \ud800")
    assert (file.read_text(), len(list(tmp_path.iterdir()))) == ("before", 1)


def test_lines_that_threads_say_at_once_stay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, file = Log(), tmp_path / "said"
    log.use("json")
    with file.open("wb", buffering=0) as raw, io.TextIOWrapper(raw, write_through=True) as stream:  # as PYTHONUNBUFFERED has it
        monkeypatch.setattr(sys, "stderr", stream)
        switched = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(lambda number: log.info("x" * 50, number=number), range(2000)))
        finally:
            sys.setswitchinterval(switched)
    assert sorted(json.loads(line)["number"] for line in file.read_text().splitlines()) == list(range(2000))
