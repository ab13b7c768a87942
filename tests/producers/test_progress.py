"""How far snapshots are: bars on a terminal, above them the log; lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from cdc_views.cli import progress
from cdc_views.cli.log import log


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_a_snapshot_and_the_log_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(log, "format", "text")
    with progress.shown_snapshots() as shown:
        shown("public.orders", done=0, total=200)
        shown("public.orders", done=100, total=200)
        log.info("something else")
        shown("public.lines", done=7, total=None)
        shown("public.orders", done=250, total=200, is_over=True)
        shown("public.lines", done=8, total=None, is_over=True)
        shown("public.more", done=1, total=2)
    said = terminal.getvalue()
    assert "public.orders" in said
    assert "something else\n" in said.replace("\x1b[2K", "").replace("\r", "")
    assert sys.stderr is terminal


@pytest.mark.parametrize("format_name", ["text", "json"])
def test_elsewhere_it_is_a_line_now_and_then(
    format_name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "format", format_name)
    times = iter([0.0, 5.0, 10.0, 11.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with progress.shown_snapshots() as shown:
        for done in (0, 1000, 2000, 3000):
            shown("public.orders", done=done, total=4000)
        shown("public.orders", done=4000, total=4000, is_over=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert "public.orders: snapshot: 2,000 of about 4,000 rows" in line
    assert ('"rows": 2000' in line) == (format_name == "json")
