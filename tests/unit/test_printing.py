"""What is printed: JSON shows what it holds and is the same value, CSV is exact in a file and harmless on a terminal."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator

import pytest

from cdc_views.cli.printing import Appearance, as_json_rows, print_rows

UNSEEN = [*range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
TEXT = "=1+1" + "".join(map(chr, UNSEEN)) + "\x1b]0;x\x07 é 😀 \\u009b"
ROW = {"text\u202e": TEXT, "n": 1}


def printed(capsys: pytest.CaptureFixture[str], format: str) -> str:
    print_rows(list(ROW), as_json_rows([ROW]), format=format)
    return capsys.readouterr().out


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_json_escapes_what_acts_unseen_and_is_the_same_value(capsys: pytest.CaptureFixture[str], format: str) -> None:
    out = printed(capsys, format)
    found = json.loads(out)
    assert (found[0] if format == "json" else found) == ROW
    assert not [letter for letter in out if ord(letter) in UNSEEN or (ord(letter) < 32 and letter != "\n")]
    assert "é 😀" in out


def test_csv_is_exact_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"), newline="")))
    assert rows == [{"text\u202e": TEXT, "n": "1"}]


@pytest.mark.parametrize("format", ["json", "jsonl", "csv"])
def test_a_row_is_printed_before_the_next_is_asked_for(capsys: pytest.CaptureFixture[str], format: str) -> None:
    def rows() -> Iterator[dict[str, str]]:
        for number in ("41", "42"):
            yield {"n": number}
            assert number in capsys.readouterr().out

    print_rows(["n"], rows(), format=format)


def test_csv_moves_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = printed(capsys, "csv")
    assert not [letter for letter in out if not letter.isprintable() and letter not in "\r\n"]
    assert "\\x1b]0;x\\x07 é 😀" in out


def test_a_table_cuts_long_values_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": "1", "notes": f'"{"x" * 50}"', "origins": '["a 1", "a 1", "b 2"]'}]
    appearance = Appearance(copies=frozenset({"origins"}), longest=5)
    print_rows(["id", "notes", "origins"], rows, format="table", appearance=appearance)
    found = capsys.readouterr()
    assert "| 1  | xxxxx… (50 characters) | a 1 ×2, b 2 |" in found.out
    assert "cut after 5 characters" in found.err
    print_rows(["id", "notes", "origins"], rows, format="vertical", appearance=appearance)
    whole = capsys.readouterr()
    assert "x" * 50 in whole.out
    assert whole.err == ""
